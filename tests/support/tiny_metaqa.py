"""A generated world in the files of MetaQA: passages without links, names, questions; types of questions are called as MetaQA's."""

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
        f'{world.names[q.topic_entity]}|{_type(q)}|{world.names[a]}' for q in questions(world, 'train', 1) for a in q.answers
    ]
    (folder / 'kb.txt').write_text('\n'.join(facts), encoding='utf-8')
    (folder / 'entities.txt').write_text('\n'.join(world.names), encoding='utf-8')
    for hops in HOPS:
        (folder / f'{hops}-hop').mkdir()
        for split in ('train', 'dev'):
            asked = list(questions(world, split, hops))[:40]
            lines = [metaqa_line(world, dataclasses.replace(q, type=_type(q))) for q in asked]
            (folder / f'{hops}-hop' / f'{split}.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return folder


def _type(question):
    return '_to_'.join(KINDS.get(kind, kind) for kind in question.type.split('_to_'))
