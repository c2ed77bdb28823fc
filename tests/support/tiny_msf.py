"""A generated world in the files of MSF; the test paragraphs are of other entities."""

import itertools

from opql_jax.datasets.msf import FOLDERS
from opql_jax.datasets.synthetic.pages import documents
from opql_jax.datasets.synthetic.questions import questions
from opql_jax.datasets.synthetic.world import generate

import records


def write(folder):
    for seed, part in enumerate(('train', 'test')):
        # Entities of the two parts are other ones, and so are their ids.
        world, other = generate(seed, 60), 100_000 * seed
        for hops, name in FOLDERS.items():
            place = folder / name / part
            asked = itertools.islice(questions(world, 'train', hops), 40)
            paragraphs = [paragraph(i, d, other) for i, d in enumerate(documents(world))]
            of_ten = f'-0000{seed}-of-00010' if hops == 1 else ''
            records.write(place / f'paragraphs{of_ten}.json', paragraphs)
            queries = [query(world, question, other) for question in asked]
            records.write(place / f'queries{of_ten}.json', queries)
    return folder


def wikidata_id(key, other):
    return f'Q{int(key[1:]) + other}'


def paragraph(number, document, other):
    def mention(m):
        text = document.text[m.start : m.end]
        return {'wikidata_id': wikidata_id(m.entity, other), 'start': m.start, 'text': text}

    about, mentions = wikidata_id(document.title_entity, other), map(mention, document.mentions)
    of = {'id': number, 'wikidata_id': about, 'context': document.text}
    return of | {'mentions': list(mentions)}


def query(world, question, other):
    def side(entity):
        of_text = {world.names[entity]: 1}
        return {'wikidata_id': wikidata_id(world.keys[entity], other), 'aliases': of_text}

    _, *steps = question.type.split('_to_')
    chain = [{'wikidata_id': step, 'text': [step]} for step in steps]
    relation = chain if question.hops > 1 else chain[0]
    ends = {'subject': side(question.topic_entity), 'object': side(question.answers[0])}
    return {'id': question.id, 'relation': relation, **ends}
