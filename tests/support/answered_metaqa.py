"""MetaQA's folder with a few films, prepared, and answers to its questions of which most are wrong, each in another way."""

import json

from opql_jax.data.prepare import prepare
from opql_jax.datasets.metaqa import MetaQA

NAMES = ['Up', 'Down', 'Ann Low', 'Bo Ek', 'Cy Orr', 'drama', 'comedy', 'sad', '1999']
PASSAGES = [
    ('Up', 'Up is a drama and comedy of 1999, directed by Ann Low and written by Bo Ek. It is sad.'),
    ('Down', 'Down is a drama directed by Ann Low.'),
    ('Down', 'Down is a comedy directed by Bo Ek.'),
]
KB = [
    'Up|directed_by|Ann Low',
    'Up|written_by|Bo Ek',
    'Up|has_genre|drama',
    'Up|has_tags|sad',
    'Up|starred_actors|Cy Orr',
    'Up|release_year|1999',
    'Down|directed_by|Ann Low',
    'Down|directed_by|Bo Ek',  # the other film
]
# Number of hops: question, right answers, type, the answer given, and the group of a wrong one.
QUESTIONS = {
    1: [
        ('who directed [Up]', 'Ann Low', 'movie_to_director', 'Ann Low', None),
        ('who starred in [Up]', 'Cy Orr', 'movie_to_actor', 'Bo Ek', 'no path'),
        ('which words describe [Up]', 'sad', 'movie_to_tags', 'drama', 'tags'),
        ('who directed [Down]', 'Ann Low', 'movie_to_director', 'Bo Ek', 'shared title'),
        ('what genre is [Up]', 'drama', 'movie_to_genre', 'comedy', 'genre'),
        ('who wrote [Up]', 'Bo Ek', 'movie_to_writer', 'Ann Low', 'other'),
        ('when was [Up] released', '1999', 'movie_to_year', None, 'other'),
    ],
    2: [
        ('what else did the director of [Up] make', 'Down', 'movie_to_director_to_movie', 'Down', None),
        ('what else did the writer of [Up] write', 'Down', 'movie_to_writer_to_movie', 'Up', 'not stated'),
    ],
    3: [
        (
            'who directed the films of the director of [Up]',
            'Ann Low',
            'movie_to_director_to_movie_to_director',
            'drama',
            'other',
        ),
        # Only back through its topic.
        ('when were films of the director of [Up] released', '1999', 'movie_to_director_to_movie_to_year', 'sad', 'not stated'),
    ],
}


def write(folder):
    """Writes `kb`, a recipe's folder, and `metaqa`, that of the data; returns both."""
    data, kb = folder / 'metaqa', folder / 'kb'
    data.mkdir()
    records = [{'id': number, 'title': title, 'text': text} for number, (title, text) in enumerate(PASSAGES)]
    (data / 'passages.jsonl').write_text('\n'.join(map(json.dumps, records)), encoding='utf-8')
    (data / 'entities.txt').write_text('\n'.join(NAMES), encoding='utf-8')
    (data / 'kb.txt').write_text('\n'.join(KB), encoding='utf-8')
    for hops, questions in QUESTIONS.items():
        results = kb / f'results/opql/{hops}-hop'
        for path in (data / f'{hops}-hop', results):
            path.mkdir(parents=True)
        lines = [f'{question}\t{answers}\t{kind}\n' for question, answers, kind, *_ in questions]
        for split in ('train', 'dev'):
            (data / f'{hops}-hop/{split}.txt').write_text(''.join(lines), encoding='utf-8')
        predictions = [
            {'id': f'{hops}-hop/dev/{number}', 'answers': [{'key': answer}] if answer else []}
            for number, (*_, answer, _) in enumerate(questions, 1)
        ]
        (results / 'dev.predictions.jsonl').write_text('\n'.join(map(json.dumps, predictions)), encoding='utf-8')
    prepare(kb=str(kb), text='text', reader=MetaQA(str(data)), wordpieces=200, drop_above_rate=1.0)
    return kb, data
