"""OPQL's training data as SeqIO tasks.

An element of a task is a whole batch, exactly what a source of `opql_jax.data` gives at that step, so a task must
be neither shuffled nor batched again:

    register('relations', '/data/prepared', num_steps=20_000, sampler='shared')
    seqio.get_dataset('opql_relations', task_feature_lengths=None, dataset_split='train', shuffle=False, seed=0,
                      feature_converter=seqio.PassThroughFeatureConverter())
"""

import functools
import os

import numpy as np
import seqio
import tensorflow as tf

from opql_jax.data import passages, sources
from opql_jax.data.prepared import Prepared
from opql_jax_tasks.vocabulary import WordPieceVocabulary

KINDS = {
    'entities': sources.EntitySource,
    'relations': sources.RelationSource,
    'align': sources.AlignSource,
    'align_passages': passages.PassageAlignSource,
    'follow': sources.FollowSource,
}


def register(kind: str, prepared_dir: str | os.PathLike, *, num_steps: int, name: str | None = None, **fields) -> seqio.Task:
    """Registers a task with one split, 'train', of `num_steps` batches.

    Args:
        kind: 'entities', 'relations', 'align', 'align_passages' or 'follow'.
        prepared_dir: a prepared directory.
        num_steps: batches.
        name: of the task; `opql_{kind}` by default.
        **fields: arguments of the source, e.g. `sampler` of `RelationSource` or `splits` of `FollowSource`.

    Returns:
        The task. `get_dataset(..., seed=s)` gives the batches of seed s; without a seed, those of seed 0.

    Raises:
        ValueError: for another kind, or a name that is already registered.
        TypeError: for fields that the source lacks.
    """
    if kind not in KINDS:
        raise ValueError(f'kind is {kind!r}; it must be one of {sorted(KINDS)}')

    @functools.lru_cache(maxsize=2)
    def open_source(seed):
        return KINDS[kind](Prepared(prepared_dir), num_steps=num_steps, seed=seed, **fields)

    def dataset_fn(split, shuffle_files, seed=None):
        del split
        if shuffle_files:
            raise ValueError(f'{kind}: batches are already drawn at random; call get_dataset with shuffle=False')
        return as_dataset(open_source(seed or 0))

    first = open_source(0)[0]
    tokens, ids = WordPieceVocabulary(prepared_dir), seqio.PassThroughVocabulary(np.iinfo(np.int32).max)
    features = {
        key: seqio.Feature(
            tokens if 'tokens' in key else ids, add_eos=False, dtype=tf.as_dtype(value.dtype), rank=np.ndim(value)
        )
        for key, value in first.items()
    }
    return seqio.TaskRegistry.add(
        name or f'opql_{kind}',
        source=seqio.FunctionDataSource(
            dataset_fn, splits=['train'], num_input_examples={'train': num_steps}, caching_permitted=False
        ),
        preprocessors=[],
        output_features=features,
    )


def as_dataset(source: sources.Source) -> tf.data.Dataset:
    """The batches of a source in order of their steps, with static shapes."""
    first = source[0]

    def batch(step):
        values = tf.numpy_function(
            lambda s: list(source[int(s)].values()), [step], [tf.as_dtype(v.dtype) for v in first.values()]
        )
        return {key: tf.ensure_shape(v, first[key].shape) for key, v in zip(first, values, strict=True)}

    return tf.data.Dataset.range(len(source)).map(batch, num_parallel_calls=2, deterministic=True)
