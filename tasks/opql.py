"""OPQL's training data as SeqIO tasks, and sets of questions to evaluate on.

    register('relations', objectives.Relations(rows=256),
        'films.kb/text')  # an objective of opql_jax.training
    seqio.get_dataset('relations', task_feature_lengths=None, feature_converter=EvaluatedBatches())

    register('webqsp', objectives.AnswerQuestions(questions='train.jsonl'), 'films.kb/text',
        questions=['dev.jsonl'])
    evaluator = seqio.Evaluator('webqsp', EvaluatedBatches(), eval_split='validation')
    metrics, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict_fn)

An element of a task is a whole batch, what the objective's source makes of a step, so tasks must
not be packed. The split 'train' is endless: where a pass over the data ends, other batches follow.
It is drawn at random, so `shuffle` changes nothing; an iterator over it can be saved and restored
(`tf.train.Checkpoint`). Nothing can be cached: SeqIO ignores `use_cached`, with a warning.

A feature is named by its path in the batch, such as 'pairs/0/tokens', of the first bucket of
lengths. All tasks have 'targets', the answers to what the split 'validation' asks. Features of
text, 'id' and 'question' (its topics in brackets), say what that is; `EvaluatedBatches` leaves
them out.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import seqio
import tensorflow as tf

from opql_jax.corpus.questions import bracketed
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Source, named_leaves
from opql_jax.data.sources.each_question import EachQuestion
from opql_jax_tasks.metrics import mean_loss, ranked_entities
from opql_jax_tasks.vocabulary import EntityVocabulary, WordPieceVocabulary

TRAIN, VALIDATION = 'train', 'validation'
# More elements than are ever read.
_ENDLESS = 2**62
# Elements of 'validation' where nothing is asked.
_EVAL_BATCHES = 16
# Added to a seed for draws that the training does not see.
_OTHER_DRAWS = 1 << 20


class Objective(Protocol):
    """What tasks need of a training objective (`opql_jax.training.objectives`)."""

    def source(self, prepared: Prepared, seed: int = 0) -> Source:
        """The batches that are trained on."""

    def validation(
        self, prepared: Prepared, questions: Sequence[str] = (), rows: int = 64, seed: int = 0
    ) -> Source:
        """The batches that are evaluated."""


class EvaluatedBatches(seqio.PassThroughFeatureConverter):
    """SeqIO's pass-through converter without features of text, which no model takes.

    It has the attributes that SeqIO's evaluator reads.
    """

    TASK_FEATURES = {}
    pack = False

    def __call__(self, ds, task_feature_lengths):
        is_text = lambda value: value.dtype == tf.string
        numbers = lambda element: {k: v for k, v in element.items() if not is_text(v)}
        return ds.map(numbers)


def register(
    name: str,
    objective: Objective,
    prepared_dir: str | os.PathLike,
    *,
    batch_size: int = 1,
    questions: Sequence[str] = (),
    rows: int = 64,
) -> seqio.Task:
    """Registers an objective's training and evaluation as a task, over one of its name.

    Args:
        name: of the task.
        objective: makes the batches.
        prepared_dir: a prepared folder.
        batch_size: elements that will be joined, over all processes: each run of so many are the
            shards of one step, each of the size that the objective says.
        questions: question sets, splits of the folder or files, of which the split 'validation'
            asks each question once. Without any it has other draws of what is trained on, and the
            metric is the mean loss.
        rows: questions of an element.

    Returns:
        The task. `get_dataset(..., seed=s)` gives the batches of seed s; without a seed, those of
        seed 0.

    Raises:
        InputError: data are missing or do not fit, see `Objective.source` and
            `Objective.validation`.
    """
    prepared = Prepared(prepared_dir)

    @functools.lru_cache(maxsize=4)
    def open_source(split, seed):
        if split == TRAIN:
            return objective.source(prepared, seed)
        return objective.validation(prepared, tuple(questions), rows, seed + _OTHER_DRAWS)

    asks = isinstance(open_source(VALIDATION, 0), EachQuestion)
    eval_batches = len(open_source(VALIDATION, 0)) if asks else _EVAL_BATCHES
    source = BatchSource(open_source, eval_batches, batch_size)
    tokens = WordPieceVocabulary(prepared_dir)
    ids = seqio.PassThroughVocabulary(np.iinfo(np.int32).max)
    vocabularies = {'targets': EntityVocabulary(prepared)}
    train, validation = (source.get_dataset(split).element_spec for split in source.splits)
    features = {
        key: seqio.Feature(
            vocabularies.get(key, tokens if key.endswith('tokens') else ids),
            add_eos=False,
            dtype=value.dtype,
            rank=value.shape.rank,
        )
        for key, value in train.items()
        if key in validation  # training may have texts beside questions
    }
    if name in seqio.TaskRegistry.names():
        seqio.TaskRegistry.remove(name)
    return seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[],
        output_features=features,
        metric_fns=[ranked_entities if asks else mean_loss],
        shuffle_buffer_size=None,
    )


class BatchSource(seqio.DataSource):
    """Batches as elements: 'train', without end, and 'validation'."""

    def __init__(
        self, open_source: Callable[[str, int], Source], eval_batches: int, batch_size: int
    ):
        """Takes what opens a split's source for a seed, and two numbers of elements.

        `eval_batches` are those of 'validation', `batch_size` those that will be joined.
        """
        super().__init__(
            splits=[TRAIN, VALIDATION],
            num_input_examples={TRAIN: None, VALIDATION: eval_batches},
            caching_permitted=False,
            performs_internal_shuffling=True,
        )
        self._open, self._batch_size = open_source, batch_size

    def open(self, split: str, seed: int | None = None) -> Source:
        """The source of a split; that of seed 0 if None."""
        return self._open(split, seed or 0)

    @property
    def supports_arbitrary_sharding(self) -> bool:
        return True

    def list_shards(self, split):
        return [split]

    def get_dataset(
        self,
        split=TRAIN,
        shuffle=True,
        seed=None,
        shard_info=None,
        *,
        sequence_length=None,
        use_cached=False,
        num_epochs=1,
    ) -> tf.data.Dataset:
        index, count = (shard_info.index, shard_info.num_shards) if shard_info else (0, 1)
        source = self.open(split, seed)
        if split == VALIDATION:
            numbers = range(index, self.num_input_examples(split), count)
            return _as_dataset(functools.partial(_element, source), numbers)
        # Process `index` of `count` has its part of the shards of each step.
        per_process = max(self._batch_size // count, 1)
        shards = [
            source.shard(index * per_process + i, per_process * count) for i in range(per_process)
        ]
        return _as_dataset(
            lambda i: _element(shards[i % per_process], i // per_process), range(_ENDLESS)
        )


def _element(source: Source, step: int) -> dict[str, np.ndarray]:
    """A batch as the features of an element."""
    leaves = named_leaves(source[step]) | {'targets': np.full((1, 1), -1, np.int32)}
    if isinstance(source, EachQuestion):
        asked, leaves['targets'] = source.asked(step), source.targets(step)
        unused = [''] * (len(leaves['targets']) - len(asked))
        leaves |= {
            'id': np.array([*(q.id for q in asked), *unused], object),
            'question': np.array([*map(bracketed, asked), *unused], object),
        }
    # An evaluator of SeqIO takes no scalar, such as a number of hops.
    return {name: np.atleast_1d(value) for name, value in leaves.items()}


def _as_dataset(element: Callable[[int], dict], numbers: range) -> tf.data.Dataset:
    """The elements of some numbers in order, with static shapes."""
    first = element(0)
    types = [tf.as_dtype(value.dtype) for value in first.values()]

    def make(number):
        # Without state, so that an iterator can be saved.
        values = tf.numpy_function(
            lambda n: list(element(int(n)).values()), [number], types, stateful=False
        )
        return {
            key: tf.ensure_shape(v, first[key].shape) for key, v in zip(first, values, strict=True)
        }

    dataset = tf.data.Dataset.range(numbers.start, numbers.stop, numbers.step)
    return dataset.map(make, num_parallel_calls=2, deterministic=True)
