"""Questions as records of question files."""

from opql_jax.corpus.questions import bracketed, parse_bracketed, write_questions


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
