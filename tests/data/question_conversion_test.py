"""Files of public data sets become question files, their topics marked and linked to entities."""

import dataclasses
import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.data.question_conversion import convert
from opql_jax.datasets.entity_resolution import EntityResolver, find_topics
from opql_jax.datasets.question_records import Coverage

# The third key is the first one's name; two names differ by case alone; the last two have a MID and
# a name as keys.
VOCAB = EntityVocab(
    ['Q1', 'Q2', 'Rome', 'Q4', 'Q5', '/m/06', 'Café Élan'],
    ['Rome', 'Ann Low', 'Rome (film)', 'Iris', 'IRIS', 'Bergen', 'Café Élan'],
    [['Roma'], ['A. Low'], [], [], [], ['Bjørgvin'], []],
)
TABLE = {
    'Q9': {'label': 'Bob', 'aliases': ['Bob', 'Roma'],
        'wikipedia': 'https://en.wikipedia.org/wiki/Caf%C3%A9_%C3%89lan'},
    'Q8': {'label': 'Sir Tom Ash', 'aliases': ['Tommy', 'ann low']},
    'Q7': {'label': 'Elsewhere', 'aliases': [], 'wikipedia': None},
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    """Writes a file and gives its path: text as it is, other values as JSON, or JSON Lines."""

    def file(name, value):
        if not isinstance(value, str):
            lines = value if name.endswith('.jsonl') else [value]
            value = ''.join(json.dumps(line) + '\n' for line in lines)
        (tmp_path / name).write_text(value, encoding='utf-8')
        return tmp_path / name

    return file


@pytest.fixture
def resolve(file):
    mids = 'm.09\tQ9\n/m/08\tQ8\n\nm.01\tQ1\nm.01\tQ2\ng.02\tQ7\n'
    return EntityResolver(VOCAB, file('mids.tsv', mids), file('labels.json', TABLE))


def marked(record):
    return [record['question'][start:end] for start, end in record['topics']]


@pytest.mark.parametrize(
    'given, entity',
    [
        ({'mid': 'm.06'}, 5),
        ({'mid': 'm.01', 'names': ['Bergen']}, 0),  # the first line of the table
        ({'mid': 'm.09'}, 6),  # the title comes before the alias 'Roma'
        ({'mid': 'm.08', 'names': ['Bergen']}, 1),  # an alias, in another case
        ({'mid': 'g.02', 'names': ['Bergen']}, 5),
        ({'mid': 'g.02'}, None),
        ({'names': ['IRIS']}, 4),
        ({'names': ['iris', 'bjørgvin']}, 5),  # of two names that differ by case alone neither
    ],
)
def test_an_entity_is_told_by_its_key_then_qid_then_name(resolve, given, entity):
    assert resolve.entity(**given) == entity


@pytest.mark.parametrize(
    'text, names, mention',
    [
        ('who ruled the Kingdom of Ash?', ['Ash', 'kingdom of ash', 'Kingdom'], 'Kingdom of Ash'),
        ("🎬 what is ann's café élan?", ['Café Élan'], 'café élan'),
        ('who is in it?', ['IN', 'It', 'Isle'], None),
        ('who saw lord of the rings?', ['The Lord of the Rings: Part 2'], 'lord of the rings'),
        ('what is the capital of bahama?', ['The Bahamas', 'Capital (book) of the Bahamas'],
            'capital'),
        ('what is it?', ['', '🇧🇸'], None),
    ],
)  # fmt: skip
def test_the_longest_name_is_the_mention_or_else_the_longest_run_of_its_words(text, names, mention):
    found = find_topics(text, [('topic', names)])
    assert [text[start:end] for start, end, _ in found] == ([mention] if mention else [])


def parse(mid, name, mention, chain, *answers):
    fields = 'TopicEntityMid', 'TopicEntityName', 'PotentialTopicEntityMention', 'InferentialChain'
    of_answer = 'AnswerType', 'AnswerArgument', 'EntityName'
    answers = [dict(zip(of_answer, answer)) for answer in answers]
    return {**dict(zip(fields, (mid, name, mention, chain))), 'Answers': answers}


def web_question(number, text, *parses):
    asked = {'RawQuestion': text, 'ProcessedQuestion': text.lower()}
    return {'QuestionId': f'W-{number}', **asked, 'Parses': list(parses)}


SUE = ('Entity', 'm.0405', 'Sue Oak')
WEBQSP = [
    web_question(0, '🎬 who met Ann Low in Bergen?',
        parse('m.0404', 'ann low', 'ann low', ['met.by'], ('Entity', 'm.09', 'Bob'), SUE),
        parse('m.06', 'Bergen', 'bergen', ['a', 'b', 'c'], SUE, ('Value', '1980-01-01', None))),
    web_question(1, 'where is tom ash from?',
        parse('m.08', 'Thomas Ash', 'thomas', None, ('Entity', 'm.0406', None))),
    web_question(2, 'what is up?',
        parse('m.0407', None, None, ['a', 'b', 'c'], ('Value', 'ROMA', ''))),
    web_question(3, 'who left Low Hill?', parse(None, 'Low Hill', 'Low Hill', ['a', 'b', 'c'])),
]  # fmt: skip


def web_line(number, text, mid, relations, answers, **topic):
    return {
        'qId': f'l{number}', 'question': text, 'topic_mid': mid, 'relations': relations,
        'answers': answers, 'topic': topic,
    }  # fmt: skip


LOW = {
    'label': 'Ann B. Low', 'alternatives': ['A. Low', 'Low'], 'wikidata_id': 'Q2',
    'wikipedia': 'https://en.wikipedia.org/wiki/Ann_Low',
}  # fmt: skip
LINES = [
    web_line(0, 'what of a. low and bergen?', 'm.0404', ['a.b', 'c.d', 'e.f'],
        ['bergen', 'Bob'], **LOW),
    web_line(1, 'who is tommy?', 'm.08', [], []),
    web_line(2, 'is it?', 'm.0404', ['a'], ['Roma', 'Rome (film)']),
    web_line(3, 'where is oak hill?', 'm.0405', ['a'], ['Bob'], label='Hill Oak', wikipedia=None),
]  # fmt: skip


def complex_question(number, kind, text, sparql, *answers):
    return {
        'ID': f'C-{number}', 'question': text, 'compositionality_type': kind, 'sparql': sparql,
        'answers': list(answers),
    }  # fmt: skip


COMPLEX = [
    complex_question(0, 'conjunction', 'Which of Tommy and café élan is in Bergen?',
        'PREFIX ns: <http://x/ns/>\nFILTER (?x != ns:m.09)\n?x ns:a.b.c ns:m.08 .\n'
        '?x ns:d ns:m.06 .\n?x ns:d ns:m.09 .',
        {'aliases': ['Roma'], 'answer': 'Eternal City', 'answer_id': 'm.0404'},
        {'aliases': [], 'answer': None, 'answer_id': 'm.0405'}),
    complex_question(1, 'composition', 'Who left where Sir Tom was?', '?x ns:d ns:m.08 .'),
    complex_question(2, 'superlative', 'Who was elsewhere first?', '?x ns:d ns:g.02 .',
        {'answer': 'Sue', 'answer_id': 'm.0406'}),
    complex_question(3, 'comparative', 'Who is older?', '?x ns:d ?y .'),
]  # fmt: skip


# Of each format a file, and what becomes of it: topics, entities, answers, hops, type; coverage.
CONVERTED = {
    'webqsp': ('w.json', {'Version': '1.0', 'Questions': WEBQSP}, [
        ('W-0', ['Ann Low', 'Bergen'], ['Q2', '/m/06'], ['Café Élan', 'Sue Oak', '1980-01-01'],
            1, 'met.by'),
        ('W-1', ['tom ash'], ['Q2'], ['m.0406'], 1, ''),  # words of the name that the table has
        ('W-3', ['Low Hill'], ['Low Hill'], [], 1, 'a > b > c'),
    ], Coverage(4, 1, 2, 2, 5, 2)),  # of those with an answer one is without a mention
    'webqsp_lines': ('w.jsonl', LINES, [
        ('l0', ['a. low'], ['Q2'], ['/m/06', 'Bob'], 1, 'a.b > c.d > e.f'),
        ('l1', ['tommy'], ['Q2'], [], 1, ''),
        ('l3', ['hill'], ['Hill Oak'], ['Bob'], 1, 'a'),
    ], Coverage(4, 1, 2, 2, 5, 3)),
    'complexwebq': ('c.json', COMPLEX, [
        ('C-0', ['Tommy', 'café élan', 'Bergen'], ['Q2', 'Café Élan', '/m/06'],
            ['Q1', 'm.0405'], 1, 'conjunction'),
        ('C-1', ['Sir Tom'], ['Q2'], [], 2, 'composition'),
        ('C-2', ['elsewhere'], ['Elsewhere'], ['Sue'], 1, 'superlative'),
    ], Coverage(4, 1, 2, 1, 3, 1)),
}  # fmt: skip


@pytest.mark.parametrize('format', CONVERTED)
def test_a_file_is_converted_with_its_coverage_beside_it(file, tmp_path, resolve, format):
    name, content, expected, coverage = CONVERTED[format]
    output, path = tmp_path / 'out' / 'dev.jsonl', file(name, content)
    tables = {'mid_to_qid': tmp_path / 'mids.tsv', 'qid_labels': tmp_path / 'labels.json'}
    assert convert(format=format, path=path, vocab=VOCAB, output=output, **tables) == coverage
    fields = 'entities', 'answers', 'hops', 'type'
    records = map(json.loads, output.read_text('utf-8').splitlines())
    found = [(r['id'], marked(r), *(r[field] for field in fields)) for r in records]
    assert found == expected
    stored = json.loads((tmp_path / 'out' / 'dev.jsonl.coverage.json').read_text())
    assert stored == dataclasses.asdict(coverage)
    # A file is told from those of other formats.
    for other in CONVERTED.keys() - {format}:
        with pytest.raises(InputError, match=f"'{format}', not '{other}': give FORMAT={format}$"):
            convert(format=other, path=path, vocab=VOCAB, output=output)


@pytest.mark.parametrize(
    'format, value, said',
    [
        ('freebase', [], "format='freebase': give one of 'webqsp', 'webqsp_lines'"),
        ('webqsp', {'Questions': [*WEBQSP[:2], WEBQSP[0]]}, "x: question 3: id 'W-0' is that of"),
        ('complexwebq', [{**COMPLEX[0], 'answers': [{}]}],
            r'x: question 1: answers\[0\]\.answer: there is neither'),
        ('complexwebq', COMPLEX[1:], 'no question names a topic; give mid_to_qid and qid_labels'),
        ('metaqa', 'who left Rome', 'x:1: the question has no topic in brackets'),
    ],
)  # fmt: skip
def test_errors_name_the_question_and_the_field(file, tmp_path, format, value, said):
    with pytest.raises(InputError, match=said):
        convert(format=format, path=file('x', value), vocab=VOCAB, output=tmp_path / 'out.jsonl')
    assert not (tmp_path / 'out.jsonl').exists()
