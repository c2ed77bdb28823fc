"""The training objectives: each a frozen dataclass of settings, which gin sets, and a pure loss.

    entities         E is trained RELIC-style: mask a mention, retrieve its entity.
                     trains encoder, entity_table
    relations        L_rel + L_el, without any label (paper §2).
                     trains encoder, entity_table
    align            the encoder learns from distantly aligned 1-hop questions (paper §3).
                     trains encoder
    align_passages   the same, with each passage encoded once for all of its pairs.
                     trains encoder
    text_relations   a relation encoder that any text can use, by labels or pairs of entities.
                     trains encoder
    reading          a reader of questions with passages: where the answer stands.
                     trains encoder, reader
    follow           multi-hop questions over a fixed memory, loss at the last hop only.
                     trains encoder, W_q, W_t
    lm_names         linking of mentions by names, before the language model (ours).
                     trains encoder, entity_table
    lm_cloze         pretraining of the language model: L_mel + L_re + L_el.
                     trains all but W_r of the memory
    lm_questions     finetuning of the language model on open questions: L_mel + L_re.
                     trains the same

Parameters are one nested dict: `encoder`, `entity_table` ([n_entities, d_e], in training with the
padding of its `Layout`) and, from following on, `follower`, for language models also `lm`.
"""

from opql_jax.training.objectives.align import Align, AlignPassages
from opql_jax.training.objectives.base import Objective, Task
from opql_jax.training.objectives.entities import Entities
from opql_jax.training.objectives.follow import Follow
from opql_jax.training.objectives.lm_cloze import Cloze
from opql_jax.training.objectives.lm_names import LinkNames
from opql_jax.training.objectives.lm_questions import AnswerQuestions
from opql_jax.training.objectives.reading import Reading
from opql_jax.training.objectives.relations import Relations
from opql_jax.training.objectives.text_relations import TextRelations

_ALL: tuple[type[Objective], ...] = (
    Entities,
    Relations,
    Align,
    AlignPassages,
    TextRelations,
    Reading,
    Follow,
    LinkNames,
    Cloze,
    AnswerQuestions,
)
# Those whose models answer questions, by the name that lineages give them.
ANSWERING = {objective.__name__: objective for objective in _ALL if objective.answers_questions}
