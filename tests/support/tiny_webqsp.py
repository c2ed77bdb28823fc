"""WebQuestionsSP and ComplexWebQuestions in the form of their official files, about pupils and
their teachers.
"""

import json


def write(folder, pairs):
    """Writes webqsp/ and complexwebquestions/ into a folder, for (pupil, teacher) pairs."""
    mids = {
        name: f'm.0{number}'
        for number, name in enumerate(sorted({name for pair in pairs for name in pair}))
    }
    webqsp, complex_questions = folder / 'webqsp', folder / 'complexwebquestions'
    for place in (webqsp, complex_questions):
        place.mkdir()
    for split, kept in (('train', pairs[::2]), ('test', pairs[1::2])):
        questions = [parsed(split, number, *pair, mids) for number, pair in enumerate(kept)]
        (webqsp / f'WebQSP.{split}.json').write_text(
            json.dumps({'Version': '1.0', 'Questions': questions}), encoding='utf-8'
        )
    for split, start in (('train', 0), ('dev', 1)):
        kept = range(start, len(pairs), 2)
        questions = [
            compose(split, number, pairs, mids)
            for compose in (superlative, composition)
            for number in kept
        ]
        (complex_questions / f'ComplexWebQuestions_{split}.json').write_text(
            json.dumps(questions), encoding='utf-8'
        )
    qids = {name: f'Q{number}' for number, name in enumerate(mids, 1)}
    table = ''.join(f'{mids[name]}\t{qid}\n' for name, qid in qids.items())
    (complex_questions / 'mid_to_qid.tsv').write_text(table, encoding='utf-8')
    labels = {qid: {'label': name, 'aliases': []} for name, qid in qids.items()}
    (complex_questions / 'qid_labels.json').write_text(json.dumps(labels), encoding='utf-8')


def parsed(split, number, pupil, teacher, mids):
    """A question of WebQuestionsSP with its parse."""
    parse = {
        'TopicEntityMid': mids[pupil],
        'TopicEntityName': pupil,
        'PotentialTopicEntityMention': pupil.lower(),
        'InferentialChain': ['people.person.teacher'],
        'Answers': [
            {'AnswerType': 'Entity', 'AnswerArgument': mids[teacher], 'EntityName': teacher}
        ],
    }
    question = f'who was {pupil.lower()} a pupil of?'
    return {'QuestionId': f'WebQ{split}-{number}', 'RawQuestion': question, 'Parses': [parse]}


def superlative(split, number, pairs, mids):
    """A question of ComplexWebQuestions of one hop."""
    pupil, teacher = pairs[number]
    chain = f'ns:{mids[pupil]} ns:people.person.teacher ?x'
    return complex_question(
        f'WebQ{split}-{number}_b',
        f'who was the best teacher of {pupil}?',
        chain,
        teacher,
        mids,
        'superlative',
    )


def composition(split, number, pairs, mids):
    """A question of ComplexWebQuestions of two hops."""
    pupil, teacher = pairs[number]
    chain = f'ns:{mids[pupil]} ns:people.person.teacher ?y . ?y ns:people.person.teacher ?x'
    text = f'who was the teacher of {pupil} a pupil of?'
    return complex_question(
        f'WebQ{split}-{number}_a', text, chain, dict(pairs)[teacher], mids, 'composition'
    )


def complex_question(id, text, chain, answer, mids, kind):
    return {
        'ID': id,
        'question': text,
        'sparql': f'SELECT ?x WHERE {{ {chain} }}',
        'compositionality_type': kind,
        'answers': [{'answer_id': mids[answer], 'answer': answer, 'aliases': []}],
    }
