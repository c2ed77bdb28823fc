"""Files of records, JSON Lines, written and read; documents and questions as records."""

import json
import pathlib

from opql_jax.corpus.questions import bracketed, parse_bracketed, write_questions


def write(path: pathlib.Path, records) -> pathlib.Path:
    """Writes a file of records, in a folder that is made if need be; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(f'{json.dumps(record)}\n' for record in records), encoding='utf-8')
    return path


def read(path: pathlib.Path) -> list:
    lines = path.read_text(encoding='utf-8').split('\n')
    return [json.loads(line) for line in lines if line]


def documents():
    """Thirty pages, each with two mentions."""
    for i in range(30):
        names, text = (f'Film{i}', f'Person{i % 7}'), f'Film{i} was made by Person{i % 7}.'
        spans = ((text.index(name), text.index(name) + len(name), name) for name in names)
        mentions = [{'start': start, 'end': end, 'entity': name} for start, end, name in spans]
        page = {'id': f'd{i}', 'title': names[0], 'text': text}
        yield {**page, 'title_entity': names[0], 'mentions': mentions}


def question_record(id, marked, *answers, **fields):
    text, topic = parse_bracketed(marked)
    return {'id': id, 'question': text, 'topics': [list(topic)], 'answers': list(answers), **fields}


def metaqa_line(world, question):
    answers = '|'.join(world.names[answer] for answer in question.answers)
    return f'{bracketed(question)}\t{answers}\t{question.type}'


def write_from_splits(prepared, path, hops=(1, 2), count=8):
    """Writes the first questions of training splits as open ones; returns the file."""
    keys = prepared.vocab.keys
    records = [
        {
            'id': q.id,
            'question': q.text,
            'topics': [q.topic],
            'answers': [keys[a] for a in q.answers] or ['nobody'],
            'hops': number,
        }
        for number in hops
        for q in prepared.questions(f'{number}-hop/train')[:count]
    ]
    write_questions(path, records)
    return path
