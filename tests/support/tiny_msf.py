"""A generated world in the files of MSF: paragraphs with links, queries of 1 to 3 hops; the test
paragraphs are of other entities.
"""

import itertools
import json

from opql_jax.datasets.msf import FOLDERS
from opql_jax.datasets.synthetic.pages import documents
from opql_jax.datasets.synthetic.questions import questions
from opql_jax.datasets.synthetic.world import generate


def write(folder):
    """Writes them into a folder and returns it."""
    for seed, part in enumerate(('train', 'test')):
        # Entities of the two parts are other ones, and so are their ids.
        world, other = generate(seed, 60), 100_000 * seed
        for hops, name in FOLDERS.items():
            place = folder / name / part
            place.mkdir(parents=True)
            of_ten = f'-0000{seed}-of-00010' if hops == 1 else ''
            asked = itertools.islice(questions(world, 'train', hops), 40)
            read = enumerate(documents(world))
            for kind, records in {
                'paragraphs': [paragraph(i, document, other) for i, document in read],
                'queries': [query(world, question, other) for question in asked],
            }.items():
                lines = '\n'.join(map(json.dumps, records))
                (place / f'{kind}{of_ten}.json').write_text(lines, encoding='utf-8')
    return folder


def wikidata_id(key, other):
    return f'Q{int(key[1:]) + other}'


def paragraph(number, document, other):
    mentions = []
    for m in document.mentions:
        place = {'start': m.start, 'text': document.text[m.start : m.end]}
        mentions.append({'wikidata_id': wikidata_id(m.entity, other), **place})
    about = wikidata_id(document.title_entity, other)
    return {'id': number, 'wikidata_id': about, 'context': document.text, 'mentions': mentions}


def query(world, question, other):
    steps = question.type.split('_to_')
    chain = [{'wikidata_id': step, 'text': [step]} for step in steps[1:]]
    side = lambda entity: {
        'wikidata_id': wikidata_id(world.keys[entity], other),
        'aliases': {world.names[entity]: 1},
    }
    ends = {'subject': side(question.topic_entity), 'object': side(question.answers[0])}
    return {'id': question.id, 'relation': chain if question.hops > 1 else chain[0], **ends}
