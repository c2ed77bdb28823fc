"""Files of public data sets become question files,
their topics marked and linked to a vocabulary.
"""

import dataclasses
import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import read_questions
from opql_jax.data.question_conversion import convert
from opql_jax.datasets import complexwebquestions, webqsp
from opql_jax.datasets.entity_resolution import EntityResolver, find_topics
from opql_jax.datasets.question_records import Coverage, with_topics

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


def test_an_entity_is_told_by_its_key_then_by_what_its_qid_is_called_then_by_name(resolve):
    assert resolve.entity('m.06') == resolve.entity('/m/06') == 5
    assert resolve.entity('m.01', names=['Bergen']) == 0  # the first line of the table
    # The title comes before the alias 'Roma'.
    assert resolve.entity(qid='Q9') == resolve.entity('m.09') == 6
    assert resolve.entity('m.08', names=['Bergen']) == 1  # an alias, in another case
    assert resolve.entity('g.02', names=['Bergen']) == 5
    assert resolve.entity('g.02') is resolve.entity('m.0404') is resolve.entity() is None
    found = (resolve.names('m.08'), resolve.names('m.06'))
    assert found == (['Sir Tom Ash', 'Tommy', 'ann low'], ['Bergen', 'Bjørgvin'])


def test_case_is_ignored_where_one_entity_alone_fits():
    resolve = EntityResolver(VOCAB)
    names = {'ROME': 0, 'café élan': 6, 'Iris': 3, 'IRIS': 4, 'iris': None}
    assert {name: resolve.entity(names=[name]) for name in names} == names
    assert resolve.entity(names=['iris', 'bjørgvin']) == 5


def test_broken_tables_are_named(file):
    for line in ('m.01 76', 'Q1\tm.01', 'm.01'):
        with pytest.raises(InputError, match=r'mids\.tsv:2: expected m.02mjmr<TAB>Q76'):
            EntityResolver(VOCAB, file('mids.tsv', f'm.09\tQ9\n{line}\n'))
    for table, said in (
        ([], 'expected a JSON object of QIDs, found list'),
        ({'Q1': 'Rome'}, "Q1: expected an object, found 'Rome'"),
        ({'Q1': {'label': 1}}, 'Q1: label: expected a string, found 1'),
        ({'Q1': {'aliases': 'Roma'}}, 'Q1: aliases: expected a list of strings'),
    ):
        with pytest.raises(InputError, match=rf'labels\.json: {said}'):
            EntityResolver(VOCAB, None, file('labels.json', table))
    with pytest.raises(InputError, match=r'none: cannot be read'):
        EntityResolver(VOCAB, 'none')


@pytest.mark.parametrize(
    'text, names, mention',
    [
        ('who ruled the Kingdom of Ash?', ['Ash', 'kingdom of ash', 'Kingdom'], 'Kingdom of Ash'),
        ("🎬 what is ann's café élan?", ['Café Élan'], 'café élan'),
        ('is ashford in ash-land?', ['Ash'], 'ash'),
        ('who is in it?', ['IN', 'It', 'Isle'], None),
        ('who saw lord of the rings?', ['The Lord of the Rings: Part 2'], 'lord of the rings'),
        ('who shot j low at the inn?', ['John Low', 'The Shot of Ash'], 'shot'),
        ('what is the capital of bahama?', ['The Bahamas', 'Capital (book) of the Bahamas'],
            'capital'),
        ('what is it?', ['', '🇧🇸'], None),
    ],
)  # fmt: skip
def test_the_longest_name_is_the_mention_or_else_the_longest_run_of_its_words(text, names, mention):
    found = find_topics(text, [('topic', names)])
    assert [text[start:end] for start, end, _ in found] == ([mention] if mention else [])


def test_topics_keep_their_own_mentions_and_of_overlapping_ones_the_longest():
    topics = [
        ('low', ['Low']), ('house', ['House of Low']), ('other', ['Ash']), ('ash', ['ash']),
        ('tree', ['Ash Tree']),
    ]  # fmt: skip
    known = {'low', 'ash', 'house', 'tree'}
    found = find_topics('did Ash see the house of low?', topics, known)
    assert found == [(4, 7, 'ash'), (16, 28, 'house')]


# Other formats.


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
NAMELESS = parse('m.0404', 'Ann Low', 'ann low', [], ('Entity', None, ''))


def shown(read):
    """The records that name a topic, and the coverage of all."""
    records, coverage = with_topics(read, VOCAB)
    fields = 'entities', 'answers', 'hops', 'type'
    return [(r['id'], marked(r), *(r[field] for field in fields)) for r in records], coverage


def test_webqsp_gives_mentions_of_all_parses_and_their_answers(file, resolve):
    records = webqsp.read(file('w.json', {'Questions': WEBQSP}), resolve)
    assert records[0]['question'] == '🎬 who met Ann Low in Bergen?'
    assert records[0]['topics'] == [[10, 17], [21, 27]]
    # Of those with an answer one is without a mention.
    assert shown(records) == ([
        ('W-0', ['Ann Low', 'Bergen'], ['Q2', '/m/06'], ['Café Élan', 'Sue Oak', '1980-01-01'],
            1, 'met.by'),
        ('W-1', ['tom ash'], ['Q2'], ['m.0406'], 1, ''),  # words of the name that the table has
        ('W-3', ['Low Hill'], ['Low Hill'], [], 1, 'a > b > c'),
    ], Coverage(4, 1, 2, 2, 5, 2))  # fmt: skip


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


def test_webqsp_lines_find_the_topic_by_its_names(file, resolve):
    assert shown(webqsp.read_lines(file('w.jsonl', LINES), resolve)) == ([
        ('l0', ['a. low'], ['Q2'], ['/m/06', 'Bob'], 1, 'a.b > c.d > e.f'),
        ('l1', ['tommy'], ['Q2'], [], 1, ''),
        ('l3', ['hill'], ['Hill Oak'], ['Bob'], 1, 'a'),
    ], Coverage(4, 1, 2, 2, 5, 3))  # fmt: skip


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


def test_complexwebq_marks_the_entities_of_the_query(file, resolve):
    records = complexwebquestions.read(file('c.json', COMPLEX), resolve)
    assert records[0]['topics'] == [[9, 14], [19, 28], [35, 41]]
    assert shown(records) == ([
        ('C-0', ['Tommy', 'café élan', 'Bergen'], ['Q2', 'Café Élan', '/m/06'],
            ['Q1', 'm.0405'], 1, 'conjunction'),
        ('C-1', ['Sir Tom'], ['Q2'], [], 2, 'composition'),
        ('C-2', ['elsewhere'], ['Elsewhere'], ['Sue'], 1, 'superlative'),
    ], Coverage(4, 1, 2, 1, 3, 1))  # fmt: skip


def test_a_file_is_converted_with_its_coverage_beside_it(file, tmp_path, resolve):
    output, path = tmp_path / 'out' / 'dev.jsonl', file('c.json', COMPLEX)
    tables = {'mid_to_qid': tmp_path / 'mids.tsv', 'qid_labels': tmp_path / 'labels.json'}
    coverage = convert(format='complexwebq', path=path, vocab=VOCAB, output=output, **tables)
    stored = json.loads((tmp_path / 'out' / 'dev.jsonl.coverage.json').read_text())
    assert stored == dataclasses.asdict(coverage) == dataclasses.asdict(Coverage(4, 1, 2, 1, 3, 1))
    lines = [' '.join(line.split()) for line in coverage.report().splitlines()]
    assert lines[1] == 'no mention 1 25.0 %' and lines[-1] == 'answers in vocabulary 1 33.3 %'
    first, _, last = read_questions(output, VOCAB)
    assert (first.entities, first.answers, first.unknown_answers) == ((1, 6, 5), (0,), ('m.0405',))
    assert (last.entities, last.answers, last.unknown_answers) == ((-1,), (), ('Sue',))


@pytest.mark.parametrize(
    'format, value, said',
    [
        ('freebase', [],
            "format='freebase': give one of 'webqsp', 'webqsp_lines', 'complexwebq', 'metaqa'"),
        ('webqsp', [], 'expected a JSON object with a list of Questions'),
        ('webqsp', {'Questions': [*WEBQSP[:2], WEBQSP[0]]},
            "x: question 3: id 'W-0' is that of number 1"),
        ('webqsp', {'Questions': [web_question(0, 'x', NAMELESS)]},
            r'x: question 1: Parses\[0\]\.Answers\[0\]\.AnswerArgument: '),
        ('webqsp_lines', 'null', 'x:1: expected a JSON object, found None'),
        ('webqsp_lines', {**LINES[1], 'topic': 'Tommy'},
            "x:1: topic: expected an object, found 'Tommy'"),
        ('webqsp_lines', {**LINES[1], 'answers': [1]}, 'x:1: answers: expected a list of strings'),
        ('complexwebq', {}, 'expected a JSON list of questions'),
        ('complexwebq', [{**COMPLEX[0], 'answers': [{}]}],
            r'x: question 1: answers\[0\]\.answer: there is neither'),
        ('complexwebq', COMPLEX[1:],
            'no question names a topic; give mid_to_qid and qid_labels'),
        ('metaqa', 'who left Rome', 'x:1: the question has no topic in brackets'),
    ],
)  # fmt: skip
def test_errors_name_the_question_and_the_field(file, tmp_path, format, value, said):
    with pytest.raises(InputError, match=said):
        convert(format=format, path=file('x', value), vocab=VOCAB, output=tmp_path / 'out.jsonl')
    assert not (tmp_path / 'out.jsonl').exists()


def test_a_file_of_another_format_is_told_with_the_setting_that_reads_it(file, tmp_path):
    files = {
        'webqsp': file('w.json', {'Version': '1.0', 'Questions': WEBQSP}),
        'webqsp_lines': file('w.jsonl', LINES),
        'complexwebq': file('c.json', COMPLEX),
        'metaqa': file('dev.txt', 'who left [Roma]\tBob\n'),
    }
    for right, path in files.items():
        for wrong in files.keys() - {right}:
            with pytest.raises(InputError, match=f"'{right}', not '{wrong}': give FORMAT={right}$"):
                convert(format=wrong, path=path, vocab=VOCAB, output=tmp_path / 'out.jsonl')
