"""What the recipes of language models share: systems, training, questions, and memories.

Facts are injected into the latter.
"""

import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opql_jax.core import files
from opql_jax.memory.manifest import read_manifest
from opql_jax.recipes.step import KB, Function, Options, Output, Stage, Step, bound, evaluate, train

# OPQL-LM; EaE, the same model without a memory; and OPQL-follow, where the memory alone answers.
SYSTEMS = ('opql-lm', 'eae', 'opql-follow')
# The null entry is the same for all topics; and the paper's form of one part each: embeddings are
# mixed and added up over the topics, with the loss of one answer; up to 8 mentions beside a hidden
# one, not 2, are topics (in the paper all are); entries that state an answer are scored only where
# the search finds them.
ABLATIONS = ('null-of-no-entity', 'mixed-embeddings', 'all-topics', 'no-gold')
# Settings of the objectives in which a system differs from OPQL-LM.
_SETTINGS: dict[str, dict] = {
    'opql-follow': {'own_prediction': False},
    'null-of-no-entity': {'null_entity': False},
    'mixed-embeddings': {'mixing': 'embeddings'},
    'all-topics': {'topics': 8},
    'no-gold': {'score_gold': False},
}


class LanguageModel(NamedTuple):
    """The system that was chosen: how it is trained and asked."""

    options: Options
    stages: Mapping[str, Stage]
    suffix: str = ''  # tells the models of a system apart

    def cloze(self, start: str, memory: str) -> Step:
        """Pretraining on text with a hidden mention."""
        own = {'INIT_FROM': start, 'MEMORY': self._memory(memory)}
        return self._train('-pretrained', 'lm_cloze', 'Cloze', own)

    def finetuned(
        self, start: str, memory: str, questions: Output, text: str = 'text', **bindings
    ) -> Step:
        """Finetuning on questions."""
        bindings |= {'INIT_FROM': start, 'MEMORY': self._memory(memory)}
        bindings |= {'TEXT': text, 'QUESTIONS': questions}
        return self._train('', 'lm_questions', 'AnswerQuestions', bindings)

    def asked(self, name: str, memory: str, questions: list[Output], text: str = 'text') -> Step:
        """The answers over a memory, and their metrics."""
        model = f'{self.options.system}{self.suffix}'
        return evaluate(f'results/{model}/{name}', model, self._memory(memory), questions, text)

    def finetuned_and_asked(
        self,
        start: str,
        encoder: str,
        memory: str,
        injected_memory: str,
        train_and_asked: Sequence[Output],
    ) -> list[Step | Function]:
        """Finetuning; other questions are asked, and again with their pairs injected (not EaE)."""
        questions, others = train_and_asked
        memories, injection = {'memory': memory}, []
        if self._memory(memory):
            memories['memory-injected'] = injected_memory
            best = {'QUESTIONS': (others,), 'PAIRS_PER_ENTITY': 100}
            injection = injected(injected_memory, memory, 'text', encoder, **best)
        return [
            *injection,
            self.finetuned(start, memory, questions),
            *(self.asked(name, of, [others]) for name, of in memories.items()),
        ]

    def _memory(self, memory: str) -> str | None:
        """The memory of the system; EaE has none."""
        return None if self.options.system == 'eae' else memory

    def _train(self, part: str, stage: str, objective: str, bindings: dict) -> Step:
        system = self.options.system
        settings = bound(f'objectives.{objective}', **_SETTINGS.get(system, {}))
        name, stages = f'{system}{part}{self.suffix}', self.stages
        return train(name, stages[stage], self.options, **bindings, **settings)


def copy_memory(source: str, target: str) -> None:
    """Copies a memory's folder in the place of an earlier copy; ManifestError: that is none."""
    place = pathlib.Path(target)
    with tempfile.TemporaryDirectory(prefix=f'.{place.name}.', dir=place.parent) as temporary:
        copy = shutil.copytree(source, pathlib.Path(temporary, place.name))
        if place.exists():
            read_manifest(place)  # or it is not a copy that this made
            files.rmtree(place)
        copy.rename(place)


def injected(name: str, memory: str, text: str, model: str, **bindings) -> list[Step | Function]:
    """A copy of a memory with pairs of another corpus, or of questions, added."""
    parts = {**KB, 'TEXT': text, 'MODEL': model, 'MEMORY': name}
    places = {'source': Output(memory), 'target': Output(name)}
    own, gin = {'ACTION': 'inject', **parts, **bindings}, ('gin/runs/update_memory.gin',)
    copied = Function(f'{name}-copy', copy_memory, places, name)
    return [copied, Step(name, 'update_memory', gin, own, name)]


def converted(
    name: str, question_format: str, source: str | Output, text: str = 'text', **bindings
) -> Step:
    """A question file of another format as questions over a prepared text, and its coverage."""
    output = f'questions/{name}.jsonl'
    bindings |= {**KB, 'TEXT': text, 'QUESTIONS': source}
    bindings |= {'OUTPUT': Output(output), 'FORMAT': question_format}
    return Step(output, 'convert_questions', ('gin/runs/convert_questions.gin',), bindings, output)
