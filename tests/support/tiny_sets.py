"""Public sets in their official forms, made small."""

import itertools
import json
import re

from opql_jax.datasets.msf import FOLDERS
from opql_jax.datasets.synthetic.pages import documents
from opql_jax.datasets.synthetic.questions import questions
from opql_jax.datasets.synthetic.world import generate

import records

RELATIONS = {
    'P19': 'place of birth', 'P17': 'country', 'P36': 'capital', 'P26': 'spouse', 'P57': 'director',
}  # fmt: skip


def document(title, *sentences, labels=()):
    """A document of sentences such as '<0 PER Ann Low> lives in <1 LOC Rome> .', with numbers of
    clusters; `labels` are triples (head, relation, tail).
    """
    sents, clusters = [], {}
    for number, sentence in enumerate(sentences):
        tokens, start = [], None
        for piece in re.sub(r'<(\d+) ([A-Z]+) ', r'<\1|\2 ', sentence).replace('>', ' >').split():
            if piece[0] == '<':
                start, (cluster, kind) = len(tokens), piece[1:].split('|')
            elif piece == '>':
                place = {'sent_id': number, 'pos': [start, len(tokens)], 'type': kind}
                mention = {**place, 'name': ' '.join(tokens[start:])}
                clusters.setdefault(int(cluster), []).append(mention)
            else:
                tokens.append(piece)
        sents.append(tokens)
    vertices = [clusters.get(i, []) for i in range(max(clusters, default=-1) + 1)]
    labels = [{'h': h, 'r': r, 't': t, 'evidence': []} for h, r, t in labels]
    return {'title': title, 'sents': sents, 'vertexSet': vertices, 'labels': labels}


def world(people=60, first=0):
    """Documents whose facts make chains across documents, for every share of relations that may be
    held out; of directors of films nothing else is said.
    """
    for i in range(first, first + people):
        town, country = i % 12, i % 12 % 4
        yield document(
            f'Person {i}',
            f'<0 PER Given{i} Family{i}> was born on a farm near <1 LOC Town{town}> .',
            f'<0 PER Given{i} Family{i}> married <2 PER Other{i} Family{i}> , who wrote songs .',
            f'<3 MISC Film{i}> was directed by <4 PER Maker{i} Stone> .',
            labels=[(0, 'P19', 1), (0, 'P26', 2), (2, 'P26', 0), (3, 'P57', 4)],
        )
        yield document(
            f'Place {i}',
            f'The river of <0 LOC Town{town}> is long in <1 LOC Country{country}> ( see map ) .',
            f'From <2 LOC Capital{country}> a president governs <1 LOC Country{country}> .',
            labels=[(0, 'P17', 1), (1, 'P36', 2), (2, 'P17', 1)],
        )


def write_docred(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'documents.json').write_text(json.dumps(list(documents)), encoding='utf-8')
    (folder / 'rel_info.json').write_text(json.dumps(RELATIONS), encoding='utf-8')
    return folder / 'documents.json'


def write_msf(folder):
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


def write_webqsp(folder, pairs):
    """Writes webqsp/ and complexwebquestions/ into a folder, for (pupil, teacher) pairs."""
    names = sorted({name for pair in pairs for name in pair})
    mids = {name: f'm.0{number}' for number, name in enumerate(names)}
    for split, kept in (('train', pairs[::2]), ('test', pairs[1::2])):
        questions = [parsed(split, number, *pair, mids) for number, pair in enumerate(kept)]
        stated = {'Version': '1.0', 'Questions': questions}
        write_json(folder / f'webqsp/WebQSP.{split}.json', stated)
    complex_questions = folder / 'complexwebquestions'
    for split, start in (('train', 0), ('dev', 1)):
        asked = [
            complex_question(f'WebQ{split}-{number}', kind, pairs, number, mids)
            for kind in ('superlative', 'composition')
            for number in range(start, len(pairs), 2)
        ]
        write_json(complex_questions / f'ComplexWebQuestions_{split}.json', asked)
    qids = {name: f'Q{number}' for number, name in enumerate(mids, 1)}
    table = ''.join(f'{mids[name]}\t{qid}\n' for name, qid in qids.items())
    (complex_questions / 'mid_to_qid.tsv').write_text(table, encoding='utf-8')
    labels = {qid: {'label': name, 'aliases': []} for name, qid in qids.items()}
    write_json(complex_questions / 'qid_labels.json', labels)


def write_json(path, stated):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(stated), encoding='utf-8')


def parsed(split, number, pupil, teacher, mids):
    answer = {'AnswerType': 'Entity', 'AnswerArgument': mids[teacher], 'EntityName': teacher}
    topic = {'TopicEntityMid': mids[pupil], 'TopicEntityName': pupil}
    topic['PotentialTopicEntityMention'] = pupil.lower()
    parse = topic | {'InferentialChain': ['people.person.teacher'], 'Answers': [answer]}
    question = f'who was {pupil.lower()} a pupil of?'
    return {'QuestionId': f'WebQ{split}-{number}', 'RawQuestion': question, 'Parses': [parse]}


def complex_question(id, kind, pairs, number, mids):
    """A question of ComplexWebQuestions: a superlative of one hop, or a composition of two."""
    pupil, answer = pairs[number]
    text, chain = f'who was the best teacher of {pupil}?', 'ns:people.person.teacher ?x'
    if kind == 'composition':
        text, answer = f'who was the teacher of {pupil} a pupil of?', dict(pairs)[answer]
        chain = f'ns:people.person.teacher ?y . ?y {chain}'
    return {
        'ID': f'{id}_{"a" if kind == "composition" else "b"}',
        'question': text,
        'sparql': f'SELECT ?x WHERE {{ ns:{mids[pupil]} {chain} }}',
        'compositionality_type': kind,
        'answers': [{'answer_id': mids[answer], 'answer': answer, 'aliases': []}],
    }
