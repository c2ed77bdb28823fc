"""Names, dates and quantities in plain text: each rule by example, and what holds for any text."""

import json

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from opql_jax.corpus import recognition
from opql_jax.corpus.recognition import RULES, refine
from opql_jax.corpus.spans import Span
from opql_jax.datasets import docred
from tests.support.spans import marked, named

pytest.importorskip('spacy', reason='names in plain text need the extra `text`')


def recognise(*texts, **options):
    batch = pa.RecordBatch.from_pydict({'text': list(texts)})
    rows = recognition.recognise_batch(batch, **options)['spans'].to_pylist()
    return [[Span(**span) for span in row] for row in rows]


RULED = [
    # What surrounds a name is no part of it.
    ('trim', 'in [the Netherlands]. It is [the Royal Society]', ['Netherlands', 'Royal Society']),
    ('trim', '[The Time Machine]: he saw [The Time Machine]', ['Time Machine', 'The Time Machine']),
    ('trim', '[km²|place], [The], [iTunes], [ebay.com|organisation], [communist|group]',
        ['iTunes', 'ebay.com', 'communist']),
    ('trim', "at [St Jude's]. In [Saint Bo's] room", ["St Jude's", 'Saint Bo']),
    ('trim', '[## Hermes], [Dear Ada|person], [*Dear Life*|work]', ['Hermes', 'Ada', 'Dear Life']),
    ('bordered', '[Mission – Out|work], [Ada – Later|person]', ['Mission – Out', 'Ada', 'Later']),
    # A value is without its modifier, and a range is two.
    ('values', 'took [about 300|quantity], [between 12 and 15|quantity]', ['300', '12', '15']),
    ('values', 'on [2021-03-04|date] or [2024-6-3|date], in [2021-03|date], [1914-18|date]',
        ['2021-03-04', '2024-6-3', '2021-03', '1914', '18']),
    ('values', 'on [Monday 12 June 1990|date] or [Thursday, March 3, 1988|date]',
        ['12 June 1990', 'March 3, 1988']),
    ('values', 'born the 3rd of [May 1902|date] or [12|quantity] [December 1981|date]',
        ['3rd of May 1902', '12 December 1981']),
    ('values', 'Rules\n[1|quantity]. Row.\n  [12|quantity]) Pay [40|quantity].', ['40']),
    # A measure is one with its unit.
    ('with_units', 'of [1,400|quantity] acres has [30|quantity] goats.', ['1,400 acres', '30']),
    # Names go on behind particles, and those of firms behind 'and'.
    ('wholes', '[Piero|person] della [Rovere|place] met [Ada|person] van der [Laan]',
        ['Piero della Rovere', 'Ada van der Laan']),
    ('wholes', '[Dray|person] and [Daughters] sued [Ek|person] & Co. and [Bo|person].',
        ['Dray and Daughters', 'Ek & Co.', 'Bo']),
    # What stands in quotes is a work, and speech is none.
    ('quoted', 'He sang "Moon River" and “Misty”, and said "no".', ['Moon River', 'Misty']),
    ('quoted', '"She is buried behind the chapel," Ida said.', []),
    ('quoted', 'She wrote "Gone with the Wind" and "Les amants de minuit".',
        ['Gone with the Wind', 'Les amants de minuit']),
    # Capitalised words that were missed are names, unless nothing but the beginning of a sentence
    # gives them a capital.
    ('capitalised', 'the Institute of Folding in [Bern].', ['Institute of Folding', 'Bern']),
    ('capitalised', 'Set in [Bern], it lost. Swabs were sent.\n- Bread\n2) Tins', ['Bern']),
    ('capitalised',
        'Foulsyke is a village. Karsk fever was the worst. Savoy (1416) fell. Today was frequent.',
        ['Foulsyke', 'Karsk', 'Savoy']),
    ('capitalised', 'the [1990|date] Bern Tour', ['1990', 'Bern Tour']),
    ('capitalised', 'He met [Prime Minister Sheikh Hasina|person].', ['Sheikh Hasina']),
    # A name that was recognised once is one everywhere.
    ('repeated', '[Kuno] sang. Kuno met [Kuno Berg], not Kunos.', ['Kuno', 'Kuno', 'Kuno Berg']),
    ('repeated', '[Ada Lovelace|person] met Lovelace', ['Ada Lovelace', 'Lovelace']),
]  # fmt: skip


@pytest.mark.parametrize('rule, text, names', RULED)
def test_a_rule_mends_what_was_recognised(rule, text, names):
    plain, spans = marked(text)
    assert named(plain, refine(plain, spans, [getattr(recognition, rule)])) == names


@pytest.mark.parametrize(
    'rule, text, kinds',
    [
        (recognition.values, 'for [about twenty-one years|date], aged [88|date]',
            {'twenty-one years': 'quantity', '88': 'quantity'}),
        (recognition.values, 'a [23-year-old|date], on [12 May|date], [about 3,000 years old|date]',
            {'23-year-old': 'quantity', '12 May': 'date', '3,000 years': 'quantity'}),
        (recognition.capitalised, 'on Tuesday night from Ulm, on Monday [12 June 1990|date]',
            {'Tuesday': 'date', 'Ulm': 'name', 'Monday': 'date', '12 June 1990': 'date'}),
    ],
)  # fmt: skip
def test_durations_and_ages_are_quantities_and_days_of_the_week_are_dates(rule, text, kinds):
    plain, spans = marked(text)
    found = refine(plain, spans, [rule])
    assert dict(zip(named(plain, found), (span.kind for span in found))) == kinds


def test_names_that_hold_a_day_stay_whole():
    text = 'He met Sheffield Wednesday, Ruby Tuesday and the Happy Mondays there.'
    assert named(text, refine(text, [])) == ['Sheffield Wednesday', 'Ruby Tuesday', 'Happy Mondays']


def assert_well_formed(text, spans):
    assert spans == sorted(spans)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(before.end <= span.start for before, span in zip(spans, spans[1:]))
    assert all(name == name.strip() for name in named(text, spans))


PIECES = 'Ada|Lovelace|the| |  |\n|.|"|\'s|1815| to |–|(|)|about|3|😀|É|\0|of|-'.split('|')


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.data())
@settings(max_examples=200)
def test_spans_are_sorted_disjoint_and_within_the_text_whatever_it_is(pieces, data):
    text = ''.join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    kinds = st.sampled_from(sorted(set(recognition.KINDS.values())))
    parts = [(a, b) for a, b in zip(cuts[::2], cuts[1::2]) if text[a:b].strip()]
    spans = [Span(a, b, data.draw(kinds)) for a, b in parts]
    for count in range(1, len(RULES) + 1):
        assert_well_formed(text, refine(text, spans, RULES[:count]))


TEXTS = [
    '', ' ', 'no name at all', 'Ada Lovelace met Lord Byron.', '😀 In Bern, Kuno sang “Misty”.',
    'Ada\0 in 1815', 'É' * 50,
]  # fmt: skip


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


def test_most_names_that_people_marked_are_recognised(shared_data, tmp_path):
    folder, path = shared_data / 'redocred', tmp_path / 'documents.json'
    records = json.loads((folder / 'documents.json').read_text(encoding='utf-8'))
    path.write_text(json.dumps(records[:60]))
    relations = docred.read_relations(folder / 'rel_info.json')
    read = docred.read_documents(path, relations, rejected_path=tmp_path / 'rejected.jsonl')
    documents = [each.document for each in read]
    found = recognise(*(document.text.replace('\n', ' ') for document in documents))
    places = lambda spans: {(span.start, span.end) for span in spans}
    right = sum(len(places(d.mentions) & places(spans)) for d, spans in zip(documents, found))
    assert right / sum(len(document.mentions) for document in documents) > 0.84
    assert right / sum(map(len, found)) > 0.78
