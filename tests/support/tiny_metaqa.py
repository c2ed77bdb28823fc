"""A generated world in the files of MetaQA, and with its types of questions."""

import dataclasses
import json

from opql_jax.datasets.synthetic.pages import documents
from opql_jax.datasets.synthetic.questions import questions
from opql_jax.datasets.synthetic.world import generate

from question_records import metaqa_line

HOPS = (1, 2, 3)
# Kinds of entities; the other kinds MetaQA does not have.
KINDS = {'film': 'movie', 'studio': 'genre', 'location': 'language', 'book': 'year'}


def write(folder):
    """Writes them into a folder, made if need be, and returns it."""
    world = generate(0, 60)
    folder.mkdir(parents=True, exist_ok=True)
    passages = [{'id': i, 'title': d.title, 'text': d.text} for i, d in enumerate(documents(world))]
    (folder / 'passages.jsonl').write_text('\n'.join(map(json.dumps, passages)), encoding='utf-8')
    facts = [
        f'{world.names[q.topic_entity]}|{q.type}|{world.names[a]}'
        for q in _questions(world, 'train', 1)
        for a in q.answers
    ]
    (folder / 'kb.txt').write_text('\n'.join(facts), encoding='utf-8')
    (folder / 'entities.txt').write_text('\n'.join(world.names), encoding='utf-8')
    for hops in HOPS:
        (folder / f'{hops}-hop').mkdir()
        for split in ('train', 'dev'):
            lines = [metaqa_line(world, q) for q in _questions(world, split, hops)][:40]
            (folder / f'{hops}-hop' / f'{split}.txt').write_text(
                '\n'.join(lines) + '\n', encoding='utf-8'
            )
    return folder


def _questions(world, split, hops):
    """Questions about the world, their types called as MetaQA's."""
    type_of = lambda kind: '_to_'.join(KINDS.get(end, end) for end in kind.split('_to_'))
    return [dataclasses.replace(q, type=type_of(q.type)) for q in questions(world, split, hops)]
