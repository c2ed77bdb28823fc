"""OPQL's training data as SeqIO tasks.

An element of a task is a whole batch, exactly what a source of `opql_jax.data` gives at that step, so a task must
be neither shuffled nor batched again:

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
from opql_jax.data import lm_sources, passages, sources
from opql_jax.data.prepared import Prepared
from opql_jax_tasks.vocabulary import WordPieceVocabulary


def open_questions(prepared: Prepared, *, questions: str | os.PathLike, **fields) -> lm_sources.OpenQuestionSource:
    """The source over a question file, see `corpus.questions`; `fields` are its other arguments."""
    return lm_sources.OpenQuestionSource(prepared, read_questions(questions, prepared.vocab), **fields)


KINDS: dict[str, Callable] = {
    'entities': sources.EntitySource,
    'relations': sources.RelationSource,
    'align': sources.AlignSource,
    'align_passages': passages.PassageAlignSource,
    'follow': sources.FollowSource,
    # Tasks open no memory: whoever has one gives its `Entries`.
    'lm_cloze': functools.partial(lm_sources.ClozeSource, entries=None),
    'lm_questions': open_questions,
}


def register(kind: str, prepared_dir: str | os.PathLike, *, num_steps: int, name: str | None = None, **fields) -> seqio.Task:
    """Registers a task with one split, 'train', of `num_steps` batches.

    Args:
        kind: one of `KINDS`.
        prepared_dir: a prepared directory.
        num_steps: batches.
        name: of the task; `opql_{kind}` by default.
        **fields: arguments of the source, e.g. `sampler` of `RelationSource`, `splits` of `FollowSource`, or the file
            `questions` of 'lm_questions'.

    Returns:
        The task. `get_dataset(..., seed=s)` gives the batches of seed s; without a seed, those of seed 0.

    Raises:
        ValueError: for another kind, or a name that is already registered.
        TypeError: for fields that the source lacks.
    """
    if kind not in KINDS:
        raise ValueError(f'kind is {kind!r}; it must be one of {sorted(KINDS)}')
    train = lambda seed: KINDS[kind](Prepared(prepared_dir), num_steps=num_steps, seed=seed, **fields)
    return add(name or f'opql_{kind}', prepared_dir, {'train': train})


def add(
    name: str,
    prepared_dir: str | os.PathLike,
    splits: Mapping[str, Callable[[int], sources.Source]],
    metric_fns: Sequence[Callable] = (),
) -> seqio.Task:
    """Registers a task whose splits are sources.

    Args:
        name: of the task.
        prepared_dir: whose tokenizer the features named 'tokens' are read with.
        splits: for each split what opens its source for a seed; features are alike in names, types and ranks.
        metric_fns: see `seqio.Task`.
    """

    @functools.lru_cache(maxsize=2 * len(splits))
    def open_source(split, seed):
        return splits[split](seed)

    def dataset_fn(split, shuffle_files, seed=None):
        if shuffle_files:
            raise ValueError(f'{name}: batches are already drawn at random; call get_dataset with shuffle=False')
        return as_dataset(open_source(split, seed or 0))

    opened = {split: open_source(split, 0) for split in splits}
    first = next(iter(opened.values()))[0]
    tokens, ids = WordPieceVocabulary(prepared_dir), seqio.PassThroughVocabulary(np.iinfo(np.int32).max)
    features = {
        key: seqio.Feature(
            tokens if 'tokens' in key else ids, add_eos=False, dtype=tf.as_dtype(value.dtype), rank=np.ndim(value)
        )
        for key, value in first.items()
    }
    return seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(
            dataset_fn,
            splits=list(splits),
            num_input_examples={split: len(source) for split, source in opened.items()},
            caching_permitted=False,
        ),
        preprocessors=[],
        output_features=features,
        metric_fns=metric_fns,
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
