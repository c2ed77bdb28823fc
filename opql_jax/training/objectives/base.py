"""What an objective is, and the task that it builds for the training loop."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import QuestionBatch, load_questions
from opql_jax.data.sources.base import Source
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.entity_table import Layout

# Folded into a step's key for the draws of a sampled softmax; dropout takes the low numbers.
_SAMPLING_KEY = 1 << 16


@dataclasses.dataclass(frozen=True)
class Task:
    """What a run of training optimises: an objective over a prepared folder, on a mesh."""

    source: Source  # `source[step]` is the batch of a step, a NamedTuple of arrays
    # `(params, batch, memory, rng) -> (loss, {name: scalar})`, pure; `rng` is the key of dropout,
    # None for none.
    loss: Callable
    # Whether a parameter is trained, by its name ('encoder/w_r/kernel').
    trainable: Callable[[str], bool]
    # JSON values that say what is learnt from what, wherever it lies; saved in every checkpoint.
    lineage: dict
    # Arrays on the mesh that the loss reads and nothing trains; captured, they would be constants.
    memory: Any = None
    # `(memory, params) -> memory`, with keys of these parameters; None without keys.
    refresh: Callable | None = None
    # Adds parameters that only this objective needs to those that training starts from.
    init: Callable = lambda params: params
    # `params -> params`, made of the data once before the first step, outside jit.
    fit: Callable | None = None
    # Raises InputError if parameters do not fit, by the lineage of their run, {} for none.
    check_init: Callable = lambda params, lineage: None
    # `(params, batch, memory) -> ([n, K], {name: [n, ...]})`, without dropout.
    predict: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Objective(abc.ABC):
    """The configuration of a training objective: a frozen dataclass whose fields gin sets."""

    source_class: ClassVar[Any]  # of the batches, whose settings those of the objective are
    # Prefixes of the names of trained parameters, and of those among them that no loss reaches,
    # which decay would spoil.
    trains: ClassVar[tuple[str, ...]] = ('encoder/', 'entity_table')
    unreached: ClassVar[tuple[str, ...]] = ()
    # How memories encode pairs with a trained model (`models.bulk_encoding`); None for as with the
    # model that training starts from.
    pair_encoding: ClassVar[str | None] = None

    @property
    def memory_dir(self) -> str | None:
        """The memory that it learns over, as a knowledge base's part or a path; None for none."""
        return None

    @property
    def own_text(self) -> bool:
        """Whether that memory is of the text that is learnt from."""
        return True

    def source(self, prepared: Prepared, seed: int = 0) -> Source:
        """The batches that are trained on; InputError as for `build`."""
        return self.source_class(prepared, self, seed)

    def validation(
        self, prepared: Prepared, questions: Sequence[str] = (), rows: int = 64, seed: int = 0
    ) -> Source:
        """Batches that show what was learnt: an `EachQuestion`, or an endless source.

        A batch has so many `rows` of the question sets, see `load_questions`; without any, `seed`,
        not that of the training, draws. InputError: the objective reads no question sets, or one
        has too many hops.
        """
        if questions:
            raise InputError(f'{type(self).__name__} is not evaluated on questions: name none')
        return self.source(prepared, seed)

    @abc.abstractmethod
    def loss(self, encoder: RelationEncoder, layout: Layout, params, batch, memory, rng):
        """The loss of a batch and its metrics, see `Task.loss`; pure."""

    def build(
        self, prepared: Prepared, encoder: RelationEncoder, mesh: Mesh, seed: int = 0
    ) -> Task:
        """Opens the data and all else; InputError: a bad setting, or data that are missing."""
        return Task(
            source=self.source(prepared, seed),
            loss=functools.partial(self.loss, encoder, Layout(mesh, len(prepared.vocab))),
            trainable=self.trainable,
            lineage=self.lineage(),
        )

    def located(self, folder: KBFolder) -> 'Objective':
        """The same with its memory's path, which settings may name as a knowledge base's part."""
        if not self.memory_dir:
            return self
        return dataclasses.replace(self, memory_dir=str(folder.part(self.memory_dir)))  # type: ignore[call-arg]

    def trainable(self, name: str) -> bool:
        """Whether a parameter, or most of those below a prefix such as 'encoder/', is trained."""
        return name.startswith(self.trains) and not name.startswith(self.unreached)

    def lineage(self, **changes) -> dict:
        """The settings as JSON values, which tell runs apart; `changes` replaces paths."""
        return {'objective': type(self).__name__, **dataclasses.asdict(self), **changes}

    @classmethod
    def from_lineage(cls, lineage: dict) -> 'Objective':
        """The objective that left a lineage; fields without a value there have their defaults."""
        settings = {field.name: lineage[field.name] for field in dataclasses.fields(cls)}
        plain = lambda value: tuple(value) if isinstance(value, list) else value
        return cls(**{name: plain(each) for name, each in settings.items() if each is not None})


def questions_of(sets: Sequence[str], prepared: Prepared, max_hops: int) -> list[Question]:
    """The questions of some sets (`load_questions`); InputError names one with too many hops."""
    loaded = {name: load_questions(name, prepared) for name in sets}
    for name, questions in loaded.items():
        check_hops(name, questions, max_hops)
    return [question for questions in loaded.values() for question in questions]


def check_hops(name: str, questions: Sequence[Question], max_hops: int) -> None:
    """Raises InputError, naming the question, if one of a set has more hops than `max_hops`."""
    if deep := [question for question in questions if question.hops > max_hops]:
        raise InputError(
            f'{name}: question {deep[0].id} has {deep[0].hops} hops, max_hops is {max_hops}'
        )


def dropout(rng, bucket: int | None = None) -> dict:
    """How an encoder is applied: with dropout if there is a key, one of its own for each bucket."""
    if rng is None:
        return {'deterministic': True}
    return {
        'deterministic': False,
        'rngs': {'dropout': rng if bucket is None else jax.random.fold_in(rng, bucket)},
    }


def fold_in(rng, number: int):
    """The key of a part of the loss; None for none."""
    return None if rng is None else jax.random.fold_in(rng, number)


def sampling_key(rng):
    """The key of the draws of a sampled softmax."""
    return jax.random.fold_in(jax.random.key(0) if rng is None else rng, _SAMPLING_KEY)


def concatenate(buckets, name: str):
    """A feature of all rows of a batch's buckets, [n, ...]."""
    return jnp.concatenate([getattr(bucket, name) for bucket in buckets])


def encode_questions(encoder: RelationEncoder, params, questions: QuestionBatch, rng):
    """Relation embeddings [n, d_r] of questions."""
    return encoder.apply(
        {'params': params['encoder']}, questions.tokens, questions.r1, questions.r2, **dropout(rng)
    )
