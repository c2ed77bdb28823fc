"""Sentences and passages: bounds, offsets, nothing lost, no mention cut."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.splitting import space_mentions, split_document

from examples import examples


def sentences(text, mentions=()):
    starts = sentence_starts(text, mentions)
    return [text[a:b].strip() for a, b in zip(starts, starts[1:] + [len(text)])]


@pytest.mark.parametrize('parts', examples("""
    It was shot in Rome. | He left.
    He said "no." | She agreed.
    Dr. J. R. Smith and Mr. Low met St. John. | It rained.
    She moved to the U.S. Army base. | It closed.
    He died in the U.S. | The film followed.
    It cost 3.5 million. | 1999 came.
    Wait... what is it? | Élan.
"""))  # fmt: skip
def test_sentences_end_at_stops_but_not_at_abbreviations(parts):
    assert sentences(' '.join(parts)) == [*parts]


def test_line_breaks_end_sentences_and_mentions_do_not():
    assert sentences('A list\n  of two.\n\n') == ['A list', 'of two.']
    text = 'In Mamma Mia! Here We Go they sing. It sold.'
    start = text.index('Mamma')
    outer = (start, start + len('Mamma Mia! Here We Go'), 0)
    for mentions in ([outer], [outer, (start, start + 5, 1), (start + 6, start + 9, 2)]):
        assert sentences(text, mentions) == ['In Mamma Mia! Here We Go they sing.', 'It sold.']
    assert sentences(' \n') == []


def count(text):
    return len(re.findall(r'\w+|[^\w\s]', text))


def split(text, max_tokens, names=(), title='Ann', title_entity=0, title_prefix=True):
    found = ((m, i) for i, name in enumerate(names) for m in re.finditer(re.escape(name), text))
    mentions = sorted((*match.span(), i) for match, i in found)
    document = Document('d', title, text)
    return split_document(document, mentions, title_entity, count, max_tokens, title_prefix)


def test_a_document_about_no_entity_has_no_prefix_nor_one_whose_title_would_take_half_of_the_room():
    assert [p.text for p in split('He left.', 9, title_entity=-1)] == ['He left.']
    assert split('He left.', 6, title='A very long title')[0].text == 'He left.'


def test_a_mention_longer_than_a_passage_is_cut_and_no_mention(caplog):
    text = 'one New York City of York.'
    mentions = [(4, 17, 0), (8, 12, 1), (21, 25, 1)]
    passages = split_document(Document('d', 't', text), mentions, -1, count, 2)
    assert ' '.join(' '.join(p.text for p in passages).split()).replace(' .', '.') == text
    found = [(p.text[s:e], entity) for p in passages for s, e, entity in p.mentions]
    assert found == [('York', 1), ('York', 1)]
    told = "left out 1 mentions longer than a passage of 2 tokens, the first [4, 17): 'New York"
    assert f"document 'd': {told}" in caplog.text


def test_a_character_of_too_many_tokens_is_an_error():
    with pytest.raises(InputError, match="max_tokens is too small: document 'd', 'é' at 2"):
        split_document(Document('d', 't', 'x é'), [], -1, lambda text: len(text.encode()), 1)
    with pytest.raises(InputError, match='max_tokens: 0'):
        split('x', 0)


def test_what_a_name_leaves_of_a_word_is_counted_by_itself():
    text = 'abcd abcd'
    assert [p.text for p in split_document(Document('d', 't', text), [], -1, count, 2)] == [text]
    mentions = [(1, 3, 0), (6, 8, 0)]  # 'a bc d a bc d'
    passages = split_document(Document('d', 't', text), mentions, -1, count, 3)
    found = [(p.text, p.mentions) for p in passages]
    assert found == [('abcd', [(1, 3, 0)]), ('abcd', [(1, 3, 0)])]
    assert all(count(space_mentions(p.text, p.mentions)[0]) <= 3 for p in passages)


def test_mentions_without_tokens_do_not_gather_in_one_passage():
    text = '\u200b ' * 100
    mentions = [(2 * i, 2 * i + 1, i % 2) for i in range(100)]
    passages = split_document(Document('d', 't', text), mentions, -1, lambda text: 0, 4)
    assert max(len(p.mentions) for p in passages) <= 8
    assert sum(len(p.mentions) for p in passages) == 100


def every_word(text):
    return [(m.start(), m.end(), i % 7) for i, m in enumerate(re.finditer(r'\S+', text))]


# A kind of text of n characters, and its mentions.
LONG = {
    'a word that is a mention': lambda n: ('a' * n, [(0, n, 0)]),
    'a word full of mentions': lambda n: ('a' * n, [(i, i + 1, i % 7) for i in range(n)]),
    'long words': lambda n: (('a' * 2000 + ' ') * (n // 2000), []),
    'a sentence': lambda n: ('aa ' * (n // 3), []),
    'sentences': lambda n: ('Aa. ' * (n // 4), []),
    'lines': lambda n: ('a\n' * (n // 2), []),
    'quotes after stops': lambda n: ('.' * (n // 2) + '"' * (n // 2), []),
    'spaces': lambda n: (' ' * n + 'a', []),
    'mentions': lambda n: ('Aa ' * (n // 3), every_word('Aa ' * (n // 3))),
    'nested mentions': lambda n: ('a' * n, [(i, n - i, i % 7) for i in range(n // 2)]),
    'no tokens': lambda n: ('\u200b\n' * (n // 2), every_word('\u200b\n' * (n // 2))),
}
COUNTERS = {
    'characters': lambda text: len(text.replace('\u200b', '').replace('\n', '')),
    'words': lambda text: len(re.findall(r'[^\W\u200b]+|[^\w\s\u200b]', text)),
}


@pytest.mark.parametrize('counter', COUNTERS)
@pytest.mark.parametrize('kind', LONG)
def test_characters_counted_and_passages_made_are_linear_in_the_text(kind, counter):
    counted = []

    def count_tokens(text):
        counted.append(len(text))
        return COUNTERS[counter](text)

    def work(n):
        counted.clear()
        text, mentions = LONG[kind](n)
        passages = split_document(Document('d', 'T', text), mentions, 0, count_tokens, 20)
        return sum(counted) + sum(len(p.text) + len(p.mentions) for p in passages)

    once, twice = work(8_000), work(16_000)
    assert twice <= 2.2 * once
    assert once <= 50 * 8_000


PIECES = [*'Ann|Bob Low|met|x-y-z|the|end.|It|U.S.|why?|\n'.split('|'), 'longword' * 3]
WORDS = st.lists(st.sampled_from(PIECES), max_size=40)


@given(WORDS, st.integers(3, 12), st.booleans(), st.sampled_from([count, lambda text: len(text)]))
def test_properties_of_any_split(words, max_tokens, title_prefix, count_tokens):
    text = ' '.join(words)
    names = ['Ann', 'Bob Low', 'Bob', 'Low']
    if count_tokens is not count:
        max_tokens += 10  # characters as tokens: room for a mention and a prefix
    found = ((m.start(), m.end(), i) for i, n in enumerate(names) for m in re.finditer(n, text))
    mentions = sorted(found, key=lambda mention: (mention[0], -mention[1]))
    document = Document('d', 'Ann', text)
    passages = split_document(document, mentions, 0, count_tokens, max_tokens, title_prefix)
    bodies, seen = [], []
    for p in passages:
        assert 0 < count_tokens(p.text) <= max_tokens
        assert p.sentence_starts[0] == 0 and p.sentence_starts == sorted(set(p.sentence_starts))
        assert p.mentions == sorted(p.mentions, key=lambda mention: (mention[0], -mention[1]))
        assert all(p.text[s:e] == names[entity] for s, e, entity in p.mentions)
        prefixed = p.text.startswith('Ann: ')
        if title_prefix and count_tokens('Ann: ') <= max_tokens // 2:
            assert any(entity == 0 for _, _, entity in p.mentions)
        assert title_prefix or not prefixed
        bodies.append(p.text[5:] if prefixed else p.text)
        seen += [m[2] for m in p.mentions[prefixed:]]
    assert ''.join(''.join(bodies).split()) == ''.join(text.split())
    assert seen == [entity for _, _, entity in mentions]
