"""A small prepared folder: random sentences about a few entities, and questions."""

import collections
import dataclasses
import itertools
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.corpus import tables
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question, to_record, write_questions
from opql_jax.data import markup, passage_records
from opql_jax.data.prepared import Prepared
from opql_jax.data.tokenizer import train_wordpiece

WORDS = (
    'the of and wrote built saw met near old river city song ship never later '
    'first again with from under'
).split()
ENTITIES, PASSAGES = 40, 120
SETTINGS = dict(tokenizer=None, wordpieces=400, max_tokens=128, title_prefix=True)
SETTINGS |= dict(nested=False, drop_above_rate=0.5, reader='Tiny', files={})


def write(directory: pathlib.Path, seed: int = 0, longest: int = 100) -> pathlib.Path:
    """Writes all files of a prepared directory: 40 entities, 120 passages of up to `longest` words,
    1-3-hop questions; returns it. Short passages share a bucket, so a train step compiles fast.
    """
    rng = np.random.default_rng(seed)
    directory.mkdir(parents=True, exist_ok=True)
    pairs = (rng.choice(WORDS, 2) for _ in range(ENTITIES))
    names = [f'{a}{i} {b}' if i % 3 else f'{a}{i}' for i, (a, b) in enumerate(pairs)]
    names = [name.title() for name in names]
    vocab = EntityVocab.from_names(names)
    passages = [_passage(rng, names, longest) for _ in range(PASSAGES)]
    rows = sorted(
        (m[2], n[2], p, i, j, i == 0 or j == 0)
        for p, (_, mentions) in enumerate(passages)
        for i, m in enumerate(mentions)
        for j, n in enumerate(mentions)
        if m[2] != n[2]
    )
    tokenizer = train_wordpiece([text for text, _ in passages], 400)
    vocab.save(directory / 'entities.parquet')
    titles = [m[0][2] for _, m in passages]
    columns = [[f'd{p}' for p in range(PASSAGES)], [names[title] for title in titles], titles]
    columns += [[text for text, _ in passages], [[0]] * PASSAGES]
    columns += [[[dict(start=a, end=b, entity=e) for a, b, e in m] for _, m in passages]]
    _write(directory / 'passages.parquet', tables.PASSAGES, columns)
    _write(directory / 'pairs.parquet', tables.PAIRS, list(zip(*rows)))
    tokenizer.save(str(directory / 'tokenizer.json'))
    records = (
        passage_records.encode_passage(markup.tokenise_passage(tokenizer, text, m))
        for text, m in passages
    )
    passage_records.write_passages(directory / passage_records.FILE_NAME, records)
    targets = collections.defaultdict(set)
    for topic, target, *_ in rows:
        targets[topic].add(target)
    for hops in (1, 2, 3):
        questions = [_question(rng, k, hops, names, targets) for k in range(20 * hops)]
        path = directory / 'questions' / f'{hops}-hop' / 'train.jsonl'
        write_questions(path, (to_record(question, vocab) for question in questions))
    write_manifest(directory)
    return directory


def write_manifest(directory: pathlib.Path) -> None:
    rows = lambda name: pq.read_metadata(directory / f'{name}.parquet').num_rows
    counts = dict.fromkeys(tables.Counts.__struct_fields__, 0)
    counts |= dict(entities=rows('entities'), passages=rows('passages'), pair_rows=rows('pairs'))
    stated = {'settings': SETTINGS, 'dropped_entities': {}, 'counts': counts}
    tables.write_manifest(directory, stated)


def set_types(directory: pathlib.Path, split: str, types) -> None:
    """Gives the questions of a split types in turn, which they lack otherwise."""
    prepared, kinds = Prepared(directory), itertools.cycle(types)
    questions = [dataclasses.replace(q, type=next(kinds)) for q in prepared.questions(split)]
    records = (to_record(question, prepared.vocab) for question in questions)
    write_questions(directory / 'questions' / f'{split}.jsonl', records)
    write_manifest(directory)


def _passage(rng, names, longest):
    """(text, mentions): 2 to 5 mentions among 4 to `longest` words; low entities are frequent."""
    slots = rng.integers(2, 6)
    words = list(rng.choice(WORDS, rng.integers(4, longest)))
    at = set(rng.choice(len(words), min(slots, len(words)), replace=False).tolist())
    text, mentions = '', []
    for k, word in enumerate(words):
        if k in at:
            entity = int(ENTITIES * rng.random() ** 2)
            mentions.append((len(text), len(text) + len(names[entity]), entity))
            text += names[entity] + ' '
        else:
            text += word + ' '
    return text + '.', mentions


def _question(rng, k, hops, names, targets):
    """Every seventh question has an unknown topic, every fifth has no known answer."""
    topic = int(rng.choice(list(targets)))
    name = names[topic]
    start = len('who met ')
    answers = sorted(rng.choice(sorted(targets[topic]), rng.integers(1, 3)).tolist())
    return Question(
        id=f'{hops}-hop/train/{k}',
        text=f'who met {name}' + ' again' * int(rng.integers(1, 8)),
        topics=((start, start + len(name)),),
        entities=(-1 if k % 7 == 6 else topic,),
        answers=() if k % 5 == 4 else tuple(dict.fromkeys(answers)),
        unknown_answers=('nobody',) if k % 5 == 4 else (),
        hops=hops,
    )


def _write(path, schema, columns):
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    tables.write_table(path, pa.Table.from_arrays(arrays, schema=schema).to_batches(), schema)
