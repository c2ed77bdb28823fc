"""Whom pronouns mean. Persons are marked as `[name]`, others as `[name|kind]`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.documents import Mention
from opql_jax.corpus.pronouns import possessives, pronouns
from opql_jax.corpus.speakers import turns
from tests.support.spans import marked


def read(text):
    text, spans = marked(text, 'person')
    mentions = [Mention(span.start, span.end, text[span.start : span.end]) for span in spans]
    kinds = {mention.entity: span.kind for mention, span in zip(mentions[::-1], spans[::-1])}
    return text, mentions, kinds


def meant(text, of=pronouns, **said):
    text, mentions, kinds = read(text)
    found = of(text, mentions, kinds, **{name: make(text) for name, make in said.items()})
    return [(text[each.start : each.end], each.entity) for each in found]


@pytest.mark.parametrize(
    'text, expected',
    [
        ('[Ada] was born in [London|place]. Her mother came from [Ulm|place].', [('Her', 'Ada')]),
        # Whose gender a first name tells, a word beside the name, or another pronoun of the text;
        # else of two either may be meant.
        ('[Ada] met [Karl Brandt]. She left. He stayed.', [('She', 'Ada'), ('He', 'Karl Brandt')]),
        ('[Bo Lee] hired [Ada Ek]. She left.', []),
        ('[Karl Lee] met [Ada Ek|organisation]. She left.', [('She', 'Ada Ek')]),
        ('[Bo Lee] hired [Kim Ek], a niece of the cook. He left.', [('He', 'Bo Lee')]),
        # The one of whom the text goes on to speak.
        ('[Kim Ek] (born 1980) is known to [Bo Lee]. She left.', [('She', 'Kim Ek')]),
        ('[Kim Ek] sang. She met [Bo Lee]. She left.', [('She', 'Kim Ek'), ('She', 'Kim Ek')]),
        # Nor is anybody else meant where the text goes on to speak of one whom it left open.
        ('[Bo Lee] hired [Kim Ek]. She met [Ann Dray]. She left.', []),
        # What is of no known kind may be a person.
        ('[Bo Lee] slept. We saw [Kim Ek|name]. She left.', [('She', 'Kim Ek')]),
        # Some sentences back.
        ('[Ada] slept. It rained. She left for [Bath|place].', [('She', 'Ada')]),
        ('[Ada] slept. It rained. It blew. It froze. She left.', []),  # too far
        # A sentence that names somebody needs no pronoun for them, and one of several is enough.
        # Titles stand before names or at their beginning.
        ('The King saw [Ann]. She waved.', [('She', 'Ann')]),
        # Somebody whom the text does not name.
        ('She was born in [London|place]. Her mother was [Anne]. She wrote.', []),
        # Nobody, and no pronouns.
        ('[Piers] leads. Each sends his or her mail. He or she may appeal, and his/her team.', []),
        # Objects are left open.
        ('[Ada] left. [Tom|place] saw her in [Bath|place]. They saw him.', []),
        # So are things.
        ('[Acme|organisation] grew. Its chief executive is [Piers].', []),
    ],
)  # fmt: skip
def test_a_pronoun_means_the_only_one_whom_it_may_mean(text, expected):
    assert meant(text) == expected


@pytest.mark.parametrize(
    'text, expected',
    [
        ('By [Bo Lee]\nI asked [Kim Ek]. She left. He stayed.', [('She', 'Kim Ek')]),
        ('[Bo Lee]: I left. She knew.\n[Kim Ek]: I know. He left.', [('He', 'Bo Lee')]),
    ],
)
def test_nobody_means_themselves_by_he_or_she(text, expected):
    assert meant(text, said=turns) == expected


_NAMES = ['[Ada]', '[Karl]', '[Acme|organisation]', '[Ulm|place]', '[His House|work]']
_WORDS = st.sampled_from([*_NAMES, *'he She her its town saw . \n'.split(' ')])


@given(st.lists(_WORDS, max_size=30))
def test_mentions_of_pronouns_are_in_order_disjoint_and_of_what_is_named_before(words):
    text, mentions, kinds = read(' '.join(words).replace(' .', '.'))
    found = pronouns(text, mentions, kinds)
    assert found == sorted(found, key=lambda mention: mention.start)
    for each in found:
        others = [other for other in [*mentions, *found] if other is not each]
        assert all(each.end <= o.start or o.end <= each.start for o in others)
        assert any(other.entity == each.entity and other.start < each.start for other in mentions)
        word = text[each.start : each.end].lower()
        assert kinds[each.entity] == 'person' and word in ('he', 'she', 'her', 'his')


@pytest.mark.parametrize(
    'text, expected',
    [
        ('[Ada] signed with [Altona Pumps|organisation] in [1999|date]. Their contact is [Bo].',
            ['Altona Pumps']),
        ('[Kestrel Bridge|place] is in [Hull|place]. Its architect was [Bo Lee].',
            ['Kestrel Bridge']),
        ('They crossed [Kestrel Bridge|place] in [Hull|place]. Its architect was [Bo Lee].', []),
        ('[Ada] and [Bo] saw [Altona Pumps|organisation]. Their car broke.', []),
        ('[Altona Pumps|organisation] grew.\nIts contact is [Ada].', []),
        ('[Altona Pumps|organisation] grew. [Weser|organisation] lost its head.', []),
    ],
)  # fmt: skip
def test_its_and_their_mean_what_the_sentence_before_is_about(text, expected):
    assert [entity for _, entity in meant(text, possessives)] == expected
