"""The batches of a relation encoder for any text: rows and questions of a label say the same."""

import collections
import json

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import relation_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.text_relations import TextRelationSettings, TextRelationSource

import tiny_sets
import tiny_text_encoder

TOKENIZER = tiny_text_encoder.TOKENIZER
# {relation: its verb}; names tell who is whose topic: those of topics are 'Ann Low' and the like,
# those of targets cities.
VERBS = {
    'met': 'met',
    'wrote': 'wrote the song of',
    'spouse': 'again and again and never with',
    'built': 'first built',
}
TOPICS = ('Ann Low', 'José Dee', 'Max Hill', 'Kim Stone')
TARGETS = ('Ålesund', 'York', 'Emma', 'Lucy')


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp('text') / 'a'
    return Prepared(tiny_text_encoder.write_text(folder, max_tokens=48))


@pytest.fixture(scope='module')
def corpora(tmp_path_factory):
    """Labelled sentences with the names in either order, documents of unrelated pairs; names."""
    folder = tmp_path_factory.mktemp('corpora')
    lines = [('Ann Low saw York', 'Ann Low', 'York', 'once')]
    for relation, verb in VERBS.items():
        for i, (a, b) in enumerate(zip(TOPICS * 2, TARGETS * 2)):
            lines.append((f'{a} {verb} {b}' if i % 2 else f'{b} of {verb} {a}', a, b, relation))
    write(folder / 'sentences.jsonl', *lines)
    said = '<0 PER Max Hill> under <1 LOC Ålesund> .', '<2 LOC Emma> under <3 LOC Lucy> .'
    tiny_sets.write_docred(folder, [tiny_sets.document('a', *said)])
    files = str(folder / 'sentences.jsonl'), str(folder / 'documents.json')
    return files, str(folder / 'rel_info.json')


def write(path, *lines):
    lines = [dict(zip(('text', 'sub_text', 'obj_text', 'rel'), line)) for line in lines]
    path.write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')


def make(prepared, corpora=None, seed=0, **fields):
    sentences, names = corpora or ((), '')
    count = 2 if corpora else 0
    defaults = dict(rows_per_label=3, relations=count, unrelated=count) | fields
    return TextRelationSource(prepared, TextRelationSettings(sentences, names, **defaults), seed)


def text(tokens):
    """A row of tokens as words; those between [CLS] and [SEP]."""
    words = [TOKENIZER.id_to_token(int(token)) for token in tokens if token]
    return ' '.join(words).replace(' ##', '')


def name(batch, row, side):
    return text(batch.tokens[row, batch.first[row, side] : batch.last[row, side] + 1])


def rows_of(batch):
    """(words of the row, topic, target, label, inverse) of the rows that have a label."""
    for row in np.flatnonzero(batch.label >= 0):
        names = name(batch, row, 0), name(batch, row, 1)
        yield text(batch.tokens[row]), *names, batch.label[row], batch.inverse[row]


def spelt(*names):
    return {text(TOKENIZER.encode(name, add_special_tokens=False).ids) for name in names}


PLAIN = dict(hidden=0.0, exchanged=0.0)


def said_by(words):
    (relation,) = (relation for relation, verb in VERBS.items() if f' {verb} ' in words)
    return relation


def test_rows_of_one_label_state_one_relation_in_its_direction(prepared, corpora):
    source, seen = make(prepared, corpora, **PLAIN), collections.defaultdict(set)
    for step in range(12):
        for words, topic, target, label, inverse in rows_of(source[step]):
            seen[said_by(words)].add((label, inverse))
            assert topic in spelt(*TOPICS) and target in spelt(*TARGETS)
    assert seen.keys() == VERBS.keys() and all(len(labels) == 1 for labels in seen.values())
    labels = [label for ((both),) in seen.values() for label in set(both)]
    assert len(labels) == len(set(labels)) == 7  # 'spouse' holds both ways
    ((one, other),) = seen['spouse']
    assert one == other


def test_names_are_hidden_and_exchanged_and_what_is_between_stays(prepared, corpora):
    source, told = make(prepared, corpora, hidden=0.4, exchanged=0.4), collections.Counter()
    for step in range(20):
        for words, *names, _, _ in rows_of(source[step]):
            said_by(words)
            for found, own in zip(names, (TOPICS, TARGETS)):
                # Exchanged for a name of the same side.
                assert found == '[ENT]' or found in spelt(*own)
                told[found == '[ENT]'] += 1
            together = (spelt(a) | spelt(b) for a, b in zip(TOPICS, TARGETS))
            told['kept together'] += set(names) in together
    share = told[True] / (told[True] + told[False])
    assert 0.3 < share < 0.5
    # .6 ** 2 would be kept if none were exchanged.
    assert told['kept together'] < 0.5 * (told[True] + told[False]) / 2
    for words, *names, _, _ in rows_of(make(prepared, corpora, hidden=1.0, exchanged=0.0)[0]):
        assert names == ['[ENT]', '[ENT]']


def test_rows_without_a_relation_have_no_label(prepared, corpora):
    batch = make(prepared, corpora, **PLAIN)[0]
    without = np.flatnonzero(batch.label < 0)
    assert (batch.inverse[without] == -1).all()
    assert [' under ' in text(batch.tokens[row]) for row in without] == [True, True]
    found = {name(batch, row, side) for row in without for side in (0, 1)}
    assert found <= spelt('Emma', 'Lucy', 'Max Hill', 'Ålesund')


def test_held_out_relations_never_occur(prepared, corpora):
    source = make(prepared, corpora, held_out=('met', 'spouse'), **PLAIN)
    for step in range(12):
        assert {said_by(words) for words, *_ in rows_of(source[step])} == {'wrote', 'built'}
    with pytest.raises(InputError, match='held_out: no sentence states merged$'):
        make(prepared, corpora, held_out=('met', 'merged'))


def test_questions_have_their_markers_and_the_labels_that_they_ask_for(prepared, corpora):
    source = make(prepared, corpora, **PLAIN)
    special, wanted = prepared.special, {}
    markers = [special.ent, special.r1, special.ent, special.r2, special.sep]
    for step in range(12):
        for words, _, _, *both in rows_of(source[step]):
            wanted[said_by(words)] = both
    asked = {}
    for relation, both in wanted.items():
        for way, patterns in zip(both, relation_questions.templates(relation)):
            for pattern in patterns:
                (words,) = spelt(pattern.replace('{}', ' '))
                asked.setdefault(words, set()).add(way)
    kinds = collections.Counter()
    for step in range(12):
        batch = source[step]
        assert (batch.question_label >= 0).all()
        columns = batch.question_tokens, batch.r1, batch.r2, batch.question_label
        for tokens, r1, r2, label in zip(*columns):
            assert tokens[[r1 - 1, r1, r2 - 1, r2, r2 + 1]].tolist() == markers
            words = text(np.delete(tokens, [0, r1 - 1, r1, r2 - 1, r2, r2 + 1]))
            if words in asked:
                assert label in asked[words]
                kinds['template'] += 1
            else:
                assert label in wanted[said_by(f' {words} ')]
                kinds['cloze'] += 1
    assert kinds == {'template': 48, 'cloze': 24}


def test_a_question_made_of_a_row_asks_in_the_direction_of_its_label(prepared, corpora):
    """Rows say 'topic verb target' or 'target of verb topic'."""
    source = make(prepared, corpora, relations=1, unrelated=0, **PLAIN)
    directions = collections.Counter()
    for step in range(40):
        batch = source[step]
        words, _, _, label, inverse = next(rows_of(batch))
        tokens, found = batch.question_tokens[2], batch.question_label[2]
        forward = ' of ' + VERBS[said_by(words)] not in f' {text(tokens)} '
        topic_is_first = batch.r1[2] < 4
        assert found == (label if forward == topic_is_first else inverse)
        directions[found == label] += 1
    assert min(directions.values()) > 5


def test_pairs_of_text_have_their_passages_and_both_directions(prepared):
    source, names = make(prepared, pairs=3, **PLAIN), {}
    for step in range(12):
        batch = source[step]
        found = list(rows_of(batch))
        by_label = collections.defaultdict(list)
        for words, topic, target, label, inverse in found:
            by_label[label].append(words)
            assert names.setdefault(label, (topic, target)) == (topic, target)
            assert names.setdefault(inverse, (target, topic)) == (target, topic)
        assert len(by_label) == 3
        assert all(2 <= len(set(rows)) == len(rows) <= 3 for rows in by_label.values())
        for tokens, r1, label in zip(batch.question_tokens, batch.r1, batch.question_label):
            assert label in names and tokens[r1] == prepared.special.r1
    # No two labels for one direction: what states the same would be held apart.
    assert len(set(names.values())) == len(names) > 6
