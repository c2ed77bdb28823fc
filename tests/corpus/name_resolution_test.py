"""Which names mean the same entity: merged where the text is evidence for it."""

import pytest

from opql_jax.corpus.documents import Document
from opql_jax.corpus.name_resolution import resolve
from tests.support.spans import marked

from examples import table


def resolve_marked(*documents):
    read = [marked(text) for _, text in documents]
    titled = [(title, text) for (title, _), (text, _) in zip(documents, read)]
    plain = [Document(title, title, text, title_entity=title) for title, text in titled]
    return resolve(plain, [spans for _, spans in read])


def meant(*documents):
    vocab, resolved = resolve_marked(*documents)
    return [vocab.names[vocab.id_of_key[mention.entity]] for mention in resolved[-1].mentions or ()]


NAMES = {
    'spellings of one name are one entity': (
        [('A', 'the [Café Royal] and [BEYONCÉ]'), ('B', 'at [The Cafe Royal] with [Beyonce]')],
        ['Café Royal', 'BEYONCÉ']),
    'a surname or first name means the only person of the document who has it': (
        [('Ada Lovelace',
            '[Ada Lovelace|person] met [Charles Babbage]. [Babbage] saw [Ada]. [Lovelace] wrote.')],
        ['Ada Lovelace', 'Charles Babbage', 'Charles Babbage', 'Ada Lovelace', 'Ada Lovelace']),
    'a short form that two names share stays an entity of its own': (
        [('The Jacksons', '[Janet Jackson] and [Michael Jackson] sang; [Jackson] danced.')],
        ['Janet Jackson', 'Michael Jackson', 'Jackson']),
    'what is no person is called by its full name first': (
        [('Dodo', 'A [Mauritius Dodo] or [Dodo] and a [Blue Whale]. The [Whale].')],
        ['Mauritius Dodo', 'Dodo', 'Blue Whale', 'Blue Whale']),
    'who has a text of his own is somebody else': (
        [('John Quincy Adams', 'He led.'),
            ('John Adams', '[John Quincy Adams|person] was his son.')], ['John Quincy Adams']),
    'in a text about one of a family the last name alone is that one': (
        [('Luis Roche',
            '[Luis Roche] married [Beatrice Roche|person]. [Roche] died, and so did [Beatrice].')],
            ['Luis Roche', 'Beatrice Roche'] * 2),
    'a firm that is called as a person of a family is none': (
        [('Henry Ford', '[Henry Ford] met [Clara Ford]. [Ford|organisation] grew.')],
        ['Henry Ford', 'Clara Ford', 'Ford']),
    'a surname without a full name means the person whom a document is about': (
        [('Bo van Ek', '[Bo van Ek|person] was the son of [Johann van Ek|person].'),
            ('B', '[Ek|person] left.')], ['Bo van Ek']),
    'but not if others of the name are told of as often': (
        [('Ann Low', '[Ann Low|person] sang.'), ('B', '[Max Low|person] sang.'),
            ('C', '[Low|person] left.')], ['Low']),
    'who is a person in other documents is not taken for a firm': (
        [('Ann Low', '[Ann Low|person] sang. [Ann Low|person] wrote.'),
            ('B', '[Ann Low|organisation] left. [Low|person] came back.')], ['Ann Low'] * 2),
    'the short form of another document is not merged': (
        [('A', '[Christopher Nolan] directed.'), ('B', '[Nolan] is a town.')], ['Nolan']),
    'a company is its name without the legal form': (
        [('A', '[Acme Corp.|organisation] grew, and [Acme|organisation] was sold.')],
        ['Acme Corp.'] * 2),
    'an abbreviation in brackets means the name before it': (
        [('A', 'the [Royal Shakespeare Company] ([RSC]) and the [RSC]')],
        ['Royal Shakespeare Company'] * 3),
    'a title in other documents is a mention even where it was not recognised': (
        [('Lord Byron', 'He wrote.'), ('Ada Lovelace',
            'She was a child of Lord Byron and of Annabella.')], ['Lord Byron']),
    'a longer title takes the place of the names in it': (
        [('Alexander and the Bad Day', 'It is a book.'),
            ('B', '[Alexander] and the Bad Day is read.')], ['Alexander and the Bad Day']),
    'a group is not the title that has an article before it': (
        [('The American', 'It is about an [American|group].'),
            ('B', 'It cites [The American] and an [American|group].')],
        ['The American', 'American']),
    'a pronoun is a mention of whom it means': (
        [('A story',
            '[Ada Lovelace|person] met [Byron|person]. Her mother was [Annabella|person].')],
        ['Ada Lovelace', 'Byron', 'Ada Lovelace', 'Annabella']),
    'unless the text is about a person': (
        [('Byron', '[Ada Lovelace|person] met [Byron|person]. Her mother was [Annabella|person].')],
        ['Ada Lovelace', 'Byron', 'Annabella']),
    'a concept is no name that is spelled like it': (
        [('B', 'A [Comedy].'), ('Comedy', '[Comedy] is like [Laura], a [comedy|concept].')],
        ['Comedy', 'Laura', 'comedy']),
}  # fmt: skip


@pytest.mark.parametrize('rule', NAMES)
def test_what_names_mean(rule):
    documents, expected = NAMES[rule]
    assert meant(*documents) == expected


@table("""
    title | name | is_one
    Ross Alger | Ross Patterson Alger | yes
    John R. Thurman | John Richardson Thurman | yes
    Ross Alger | Harry Alger |
    Ross Peter Alger | Ross Patterson Alger |
    George W. Bush | George H. W. Bush |
""")
def test_a_text_about_a_person_may_begin_with_more_or_fewer_first_names(title, name, is_one):
    assert meant((title, f'[{name}|person] was born in 1900.')) == [title if is_one else name]


@table("""
    title | text | name
    C | [Titanic] is a film by him. | Titanic (film)
    C | [Titanic] is a film about a ship. | Titanic
    Titanic (ship) | The [Titanic] sank. | Titanic (ship)
""")
def test_a_name_that_titles_share_is_told_by_the_word_in_brackets(title, text, name):
    titled = [(f'Titanic ({kind})', 'It sank.') for kind in ('film', 'ship')]
    assert meant(*(each for each in titled if each[0] != title), (title, text)) == [name]


def kinds_of(*documents):
    vocab, _ = resolve_marked(*documents)
    return dict(zip(vocab.names, vocab.kinds, strict=True))


@pytest.mark.parametrize('title, kind', [('A guide for visitors', 'title'), ('Tom Reeve', 'name')])
def test_a_title_that_no_text_names_is_a_title_unless_all_of_its_words_have_capitals(title, kind):
    assert kinds_of((title, 'Born in [Walworth].'))[title] == kind
    assert kinds_of((title, f'[{title}] is by [Otto].'))[title] == 'name'


def test_an_entity_is_of_the_kind_that_its_text_defines_or_most_of_its_mentions_have():
    lovelace = '[Lovelace|person] and [Lovelace|person], [Countess], met'
    text = f'{lovelace} [Byron|work], [BYRON|person] in [1815|date].'
    # Byron's two are as frequent; B is a title that no text mentions.
    kinds = {'Ada Lovelace': 'person', 'B': 'name', 'Countess': 'name', 'BYRON': 'person'}
    other = ('B', '[Countess] [Countess] [Ada Lovelace|place]')
    assert kinds_of(('Ada Lovelace', text), other) == kinds | {'1815': 'date'}
    assert kinds_of(('Laura', '[Laura|person] is a film.'))['Laura'] == 'work'


@pytest.mark.parametrize(
    'first, second, are_two',
    [
        ('was born in [Lagos|place]', 'was born in [Toronto|place]', True),
        ('was born in [Lagos|place]', 'was born in [Lagos|place], [Nigeria|place]', False),
        ('was born on [3 May 1960|date]', 'was born in [1999|date]', True),
        ('was born in [Lagos|place]', 'lives in [Toronto|place]', False),
    ],
)
def test_persons_of_one_name_who_are_born_elsewhere_are_two(first, second, are_two):
    texts = [f'[Daniel Okafor|person] runs it. [Okafor|person] {text}.' for text in (first, second)]
    _, found = resolve_marked(('Brightwater Mills', texts[0]), ('Tidewell Shipping', texts[1]))
    keys = [{mention.entity for mention in document.mentions[:2]} for document in found]
    assert [len(of_document) for of_document in keys] == [1, 1]
    assert (keys[0] != keys[1]) == are_two
