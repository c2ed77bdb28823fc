"""The training objectives: each a frozen dataclass of settings, which gin sets, and a pure loss.

    entities         E, RELIC-style: a masked mention retrieves its entity; and the encoder
    relations        L_rel + L_el, without any label (paper §2): encoder, E
    align            the encoder, by distantly aligned 1-hop questions (paper §3)
    align_passages   the same, with each passage encoded once for all of its pairs
    text_relations   a relation encoder that any text can use, by labels or pairs of entities
    reading          a reader of questions with passages: where the answer stands
    follow           multi-hop questions over a fixed memory, by the last hop: encoder, W_q, W_t
    lm_names         linking of mentions by names, before the language model (ours): encoder, E
    lm_cloze         pretraining of the language model, all but W_r: L_mel + L_re + L_el
    lm_questions     finetuning of the same on open questions: L_mel + L_re

Parameters are one nested dict: `encoder`, `entity_table` ([n_entities, d_e], in training with the
padding of its `Layout`) and, from following on, `follower`, for language models also `lm`.
"""

from opql_jax.training.objectives.align import Align, AlignPassages
from opql_jax.training.objectives.base import Objective, Task
from opql_jax.training.objectives.entities import Entities
from opql_jax.training.objectives.follow import Follow
from opql_jax.training.objectives.language_model import Cloze
from opql_jax.training.objectives.lm_names import LinkNames
from opql_jax.training.objectives.lm_questions import AnswerQuestions
from opql_jax.training.objectives.reading import Reading
from opql_jax.training.objectives.relations import Relations
from opql_jax.training.objectives.text_relations import TextRelations

# Those whose models answer questions, by the name that lineages give them.
ANSWERING = {kind.__name__: kind for kind in (Follow, Cloze, AnswerQuestions)}
