"""WebQuestionsSP and ComplexWebQuestions in their official form, about pupils and teachers."""

import json


def write(folder, pairs):
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
