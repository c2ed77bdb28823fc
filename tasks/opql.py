"""OPQL's training data as SeqIO tasks.

An element of a task is a whole batch, exactly what a source of `opql_jax.data.sources` makes for that step, so a task must be
neither shuffled nor batched again. A feature is named by its path in the batch, such as 'pairs/0/tokens':

    register('relations', '/data/prepared', num_steps=20_000, sampler='shared')
    seqio.get_dataset('opql_relations', task_feature_lengths=None, dataset_split='train', shuffle=False, seed=0,
                      feature_converter=seqio.PassThroughFeatureConverter())
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import seqio
import tensorflow as tf

from opql_jax.corpus.questions import read_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources import align, align_passages, cloze, entities, follow, open_questions, relations
from opql_jax.data.sources.base import Source, named_leaves
from opql_jax_tasks.vocabulary import WordPieceVocabulary


def _with_settings(source, settings):
    """A source whose settings are given as fields."""
    return lambda prepared, *, seed=0, **fields: source(prepared, settings(**fields), seed)


def _read_open_questions(prepared: Prepared, *, questions: str | os.PathLike, **fields):
    """The source over a question file; `fields` are its other arguments."""
    return open_questions.OpenQuestionSource(prepared, read_questions(questions, prepared.vocab), **fields)


# The source of each kind of task: a function of a prepared folder, `seed` and the fields of `register`.
KINDS: dict[str, Callable] = {
    'entities': entities.EntitySource,
    'relations': _with_settings(relations.RelationSource, relations.RelationSettings),
    'align': _with_settings(align.AlignSource, align.AlignSettings),
    'align_passages': _with_settings(align_passages.PassageAlignSource, align_passages.PassageAlignSettings),
    'follow': follow.FollowSource,
    'lm_cloze': cloze.ClozeSource,  # needs the `entries` of a memory, which the caller opens
    'lm_questions': _read_open_questions,
}


def register(kind: str, prepared_dir: str | os.PathLike, *, num_steps: int, name: str | None = None, **fields) -> seqio.Task:
    """Registers a task with one split, 'train', of `num_steps` batches.

    Args:
        kind: one of `KINDS`.
        prepared_dir: a prepared directory.
        num_steps: batches.
        name: of the task; `opql_{kind}` by default.
        **fields: settings of the source, e.g. `sampler` of `RelationSettings`, `splits` of `FollowSource`, or the question
            file `questions` of 'lm_questions'.

    Returns:
        The task. `get_dataset(..., seed=s)` gives the batches of seed s; without a seed, those of seed 0.

    Raises:
        ValueError: for another kind, or a name that is already registered.
        TypeError: for fields that the source lacks.
    """
    if kind not in KINDS:
        raise ValueError(f'kind is {kind!r}; it must be one of {sorted(KINDS)}')
    source = lambda seed: KINDS[kind](Prepared(prepared_dir), seed=seed, **fields)
    return add(name or f'opql_{kind}', prepared_dir, {'train': (source, num_steps)})


def add(
    name: str,
    prepared_dir: str | os.PathLike,
    splits: Mapping[str, tuple[Callable[[int], Source], int]],
    metric_fns: Sequence[Callable] = (),
) -> seqio.Task:
    """Registers a task whose splits are sources.

    Args:
        name: of the task.
        prepared_dir: whose tokenizer the features named 'tokens' are read with.
        splits: for each split a function that opens its source for a seed, and its number of steps; features are alike in names,
            types and ranks.
        metric_fns: see `seqio.Task`.
    """

    @functools.lru_cache(maxsize=2 * len(splits))
    def open_source(split, seed):
        return splits[split][0](seed)

    def dataset_fn(split, shuffle_files, seed=None):
        if shuffle_files:
            raise ValueError(f'{name}: batches are already drawn at random; call get_dataset with shuffle=False')
        return as_dataset(open_source(split, seed or 0), splits[split][1])

    first = [named_leaves(open_source(split, 0)[0]) for split in splits][0]
    tokens, ids = WordPieceVocabulary(prepared_dir), seqio.PassThroughVocabulary(np.iinfo(np.int32).max)
    features = {
        key: seqio.Feature(
            tokens if key.endswith('tokens') else ids, add_eos=False, dtype=tf.as_dtype(value.dtype), rank=np.ndim(value)
        )
        for key, value in first.items()
    }
    return seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(
            dataset_fn,
            splits=list(splits),
            num_input_examples={split: num_steps for split, (_, num_steps) in splits.items()},
            caching_permitted=False,
        ),
        preprocessors=[],
        output_features=features,
        metric_fns=metric_fns,
    )


def as_dataset(source: Source, num_steps: int) -> tf.data.Dataset:
    """The first batches of a source in order of their steps, with static shapes."""
    first = named_leaves(source[0])

    def batch(step):
        values = tf.numpy_function(
            lambda s: list(named_leaves(source[int(s)]).values()), [step], [tf.as_dtype(v.dtype) for v in first.values()]
        )
        return {key: tf.ensure_shape(v, first[key].shape) for key, v in zip(first, values, strict=True)}

    return tf.data.Dataset.range(num_steps).map(batch, num_parallel_calls=2, deterministic=True)
