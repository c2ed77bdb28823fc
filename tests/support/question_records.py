"""Questions as records of question files."""

from opql_jax.corpus.questions import bracketed, parse_bracketed


def question_record(id, marked, *answers, **fields):
    """The record of 'who made [Up]' and its answers."""
    text, topic = parse_bracketed(marked)
    return {'id': id, 'question': text, 'topics': [list(topic)], 'answers': list(answers), **fields}


def metaqa_line(world, question):
    """A question about a generated world in the format of MetaQA."""
    return '\t'.join((bracketed(question), '|'.join(world.names[answer] for answer in question.answers), question.type))
