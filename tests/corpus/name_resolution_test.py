"""Which names mean the same entity: merged where the text is evidence for it, and never silently."""

import re

import pytest

from opql_jax.corpus.documents import Document
from opql_jax.corpus.name_resolution import fold, resolve
from opql_jax.corpus.spans import Span


def resolve_marked(*documents, kinds=None):
    """Resolves `(title, text)`, in which names stand in square brackets, of the kinds given for them, or else unknown ones."""
    plain, spans = [], []
    for title, text in documents:
        out, found = '', []
        for i, piece in enumerate(re.split(r'[\[\]]', text)):
            if i % 2:
                found.append(Span(len(out), len(out) + len(piece), (kinds or {}).get(piece, 'name')))
            out += piece
        plain.append(Document(title, title, out, title_entity=title))
        spans.append(found)
    return resolve(plain, spans)


def read(*documents, kinds=None):
    """`(mention, entity name)` of each document, see `resolve_marked`."""
    vocab, resolved = resolve_marked(*documents, kinds=kinds)
    return [[(d.text[m.start : m.end], vocab.names[vocab.id_of_key[m.entity]]) for m in d.mentions or ()] for d in resolved]


def test_spellings_of_one_name_are_one_entity():
    first, second = read(('A', 'the [Café Royal] and [BEYONCÉ]'), ('B', 'at [The Cafe Royal] with [Beyonce]'))
    assert [name for _, name in first] == [name for _, name in second]
    assert fold("The Café-Royal's") == fold('cafe royal')


def test_a_surname_or_first_name_means_the_only_person_of_the_document_who_has_it():
    [mentions] = read(('Ada Lovelace', '[Lovelace] met [Charles Babbage]. [Babbage] wrote to [Ada].'))
    assert mentions == [
        ('Lovelace', 'Ada Lovelace'),
        ('Charles Babbage', 'Charles Babbage'),
        ('Babbage', 'Charles Babbage'),
        ('Ada', 'Ada Lovelace'),
    ]


def test_a_short_form_that_two_names_share_stays_an_entity_of_its_own():
    [mentions] = read(('The Jacksons', '[Janet Jackson] and [Michael Jackson] sang; [Jackson] danced.'))
    assert mentions[-1] == ('Jackson', 'Jackson')


@pytest.mark.parametrize(
    'title, name, is_one',
    [
        ('Ross Alger', 'Ross Patterson Alger', True),
        ('John R. Thurman', 'John Richardson Thurman', True),
        ('William Hepburn Armstrong', 'William H. Armstrong', True),
        ('J. H. Dearle', 'John Henry Dearle', True),
        ('Ross Alger', 'Harry Alger', False),
        ('Ross Peter Alger', 'Ross Patterson Alger', False),
        ('George W. Bush', 'George H. W. Bush', False),
        ('Ross', 'Ross Alger Ross', False),
    ],
)
def test_a_text_about_a_person_may_begin_with_more_or_fewer_first_names(title, name, is_one):
    [[(_, meant)]] = read((title, f'[{name}] was born in 1900.'), kinds={name: 'person'})
    assert meant == (title if is_one else name)


def test_what_differs_by_first_names_elsewhere_in_a_text_or_has_a_text_of_its_own_is_somebody_else():
    kinds = dict.fromkeys(('John Adams', 'John Quincy Adams', 'Luis Armando Roche'), 'person')
    adams, _ = read(
        ('John Adams', '[John Quincy Adams] was his son.'), ('John Quincy Adams', 'He was a president.'), kinds=kinds
    )
    assert adams == [('John Quincy Adams', 'John Quincy Adams')]
    [roche] = read(('Luis Roche', 'He was the father of [Luis Armando Roche].'), kinds=kinds)
    assert roche == [('Luis Armando Roche', 'Luis Armando Roche')]


def test_things_whose_names_differ_by_a_word_are_two():
    [[(_, meant)]] = read(('Asian Games', '[Asian Para Games] were held.'))
    assert meant == 'Asian Para Games'


def test_in_a_text_about_one_of_a_family_the_last_name_alone_is_that_one():
    [mentions] = read(('Luis Roche', '[Luis Roche] married [Beatrice Roche]. [Roche] died, and so did [Beatrice].'))
    assert [name for _, name in mentions] == ['Luis Roche', 'Beatrice Roche', 'Luis Roche', 'Beatrice Roche']


def test_a_firm_or_a_town_that_is_called_as_a_person_of_a_family_is_not_the_one_of_the_title():
    for kind in ('organisation', 'place', 'work'):
        [mentions] = read(('Henry Ford', '[Henry Ford] met [Clara Ford]. [Ford] grew.'), kinds={'Ford': kind})
        assert mentions[-1] == ('Ford', 'Ford')


def test_the_short_form_of_another_document_is_not_merged():
    _, second = read(('A', '[Christopher Nolan] directed.'), ('B', '[Nolan] is a town.'))
    assert second == [('Nolan', 'Nolan')]


def test_a_place_or_organisation_is_not_shortened_to_one_of_its_words():
    kinds = {'Google Maps': 'product', 'Google': 'organisation', 'New York City': 'place', 'New York': 'place'}
    [mentions] = read(('A', '[Google Maps] is by [Google]; [New York City] is in [New York].'), kinds=kinds)
    assert all(surface == name for surface, name in mentions)


def test_a_company_is_its_name_without_the_legal_form():
    kinds = {'Acme Corp.': 'organisation', 'Acme': 'organisation'}
    [mentions] = read(('A', '[Acme Corp.] grew, and [Acme] was sold.'), kinds=kinds)
    assert len({name for _, name in mentions}) == 1


def test_an_abbreviation_in_brackets_means_the_name_before_it():
    [mentions] = read(('A', 'the [Royal Shakespeare Company] ([RSC]) and the [RSC]'))
    assert [name for _, name in mentions] == ['Royal Shakespeare Company'] * 3


@pytest.mark.parametrize('long, short', [('Apple', 'A'), ('Ada Lovelace', 'L')])
def test_a_single_letter_in_brackets_abbreviates_nothing(long, short):
    [mentions] = read(('A', f'the [{long}] ([{short}]) and the [{short}]'))
    assert [name for _, name in mentions[1:]] == [short] * 2


@pytest.mark.parametrize('long, short', [('bank of England', 'BOE'), ('Royal Society of Arts', 'RSA')])
def test_small_words_may_count_among_the_initials_or_not(long, short):
    [mentions] = read(('A', f'the [{long}] ([{short}])'))
    assert len({name for _, name in mentions}) == 1


def test_letters_that_are_no_initials_abbreviate_nothing():
    [mentions] = read(('A', 'the [Royal Shakespeare Company] ([Stratford])'))
    assert mentions[-1] == ('Stratford', 'Stratford')


def test_a_title_in_other_documents_is_a_mention_even_where_it_was_not_recognised():
    first, second = read(('Lord Byron', 'He wrote.'), ('Ada Lovelace', 'She was a child of Lord Byron and of Annabella.'))
    assert first == [] and second == [('Lord Byron', 'Lord Byron')]


def test_a_longer_title_takes_the_place_of_the_names_in_it():
    [_, mentions] = read(('Alexander and the Bad Day', 'It is a book.'), ('B', '[Alexander] and the Bad Day is read.'))
    assert mentions == [('Alexander and the Bad Day', 'Alexander and the Bad Day')]


def test_a_title_of_one_word_is_no_mention_at_the_start_of_a_sentence():
    [_, mentions] = read(('Brother', 'A song.'), ('B', 'Brother sang. He sang Brother.'))
    assert mentions == [('Brother', 'Brother')]


MEANT = {
    '[Titanic] is a film by him.': 'Titanic (film)',
    '[Titanic] was a ship.': 'Titanic (ship)',
    '[Titanic] was great.': 'Titanic',
    '[Titanic] is a film about a ship.': 'Titanic',
}


@pytest.mark.parametrize('text, meant', MEANT.items())
def test_a_name_that_titles_share_is_resolved_by_the_word_in_brackets_or_stays_ambiguous(text, meant):
    film, ship, mentions = read(
        ('Titanic (film)', 'The [Titanic] sank.'), ('Titanic (ship)', 'The [Titanic] sank.'), ('C', text)
    )
    assert film == [('Titanic', 'Titanic (film)')] and ship == [('Titanic', 'Titanic (ship)')]
    assert mentions == [('Titanic', meant)]


def test_a_title_in_brackets_that_shares_its_name_with_none_is_that_name():
    _, mentions = read(('Hello Love (song)', 'x'), ('B', 'He sang [Hello Love].'))
    assert mentions == [('Hello Love', 'Hello Love (song)')]


def test_a_group_is_not_the_title_that_has_an_article_before_it():
    documents = ('The American', 'It is about an [American].'), ('B', 'It cites [The American] and an [American].')
    _, mentions = read(*documents, kinds={'American': 'group'})
    assert mentions == [('The American', 'The American'), ('American', 'American')]


def test_values_are_entities_as_they_are_written():
    [mentions] = read(('A', 'born in [1815], died in [1852]'), kinds={'1815': 'date', '1852': 'date'})
    assert mentions == [('1815', '1815'), ('1852', '1852')]


def test_a_pronoun_is_a_mention_of_whom_it_means_unless_the_text_is_about_a_person():
    text = '[Ada Lovelace] met [Byron]. Her mother was [Annabella].'
    for title, expected in (('A story', [('Her', 'Ada Lovelace')]), ('Byron', [])):
        [mentions] = read((title, text), kinds=dict.fromkeys(('Ada Lovelace', 'Byron', 'Annabella'), 'person'))
        assert [mention for mention in mentions if mention[0] == 'Her'] == expected


@pytest.mark.parametrize(
    'title, kind', [('A guide for visitors', 'title'), ('The Book of Tides', 'title'), ('Tom Reeve', 'name')]
)
def test_a_title_that_no_text_names_is_a_title_unless_all_of_its_words_have_capitals(title, kind):
    vocab, _ = resolve_marked((title, 'Born in [Walworth].'))
    assert vocab.kinds[vocab.names.index(title)] == kind
    vocab, _ = resolve_marked((title, f'[{title}] is by [Otto].'))
    assert vocab.kinds[vocab.names.index(title)] == 'name'


def test_an_entity_is_of_the_known_kind_that_most_of_its_mentions_have():
    kinds = {'Ada Lovelace': 'place', 'Lovelace': 'person', 'Byron': 'work', 'BYRON': 'person', '1815': 'date'}
    text = '[Lovelace] and [Lovelace], [Countess], met [Byron], [BYRON] in [1815].'
    vocab, _ = resolve_marked(('Ada Lovelace', text), ('B', '[Countess] [Countess] [Ada Lovelace]'), kinds=kinds)
    # Byron's two are as frequent; B is a title that no text mentions.
    assert dict(zip(vocab.names, vocab.kinds, strict=True)) == {
        'Ada Lovelace': 'person', 'B': 'name', 'Countess': 'name', 'BYRON': 'person', '1815': 'date',
    }  # fmt: skip


def test_letters_with_a_stroke_and_both_apostrophes_are_folded():
    assert fold('Bjørn Łukasz') == fold('Bjorn Lukasz') and fold('Schindler’s List') == fold("Schindler's List")


def test_what_a_document_is_about_has_the_kind_that_it_defines():
    vocab, _ = resolve_marked(
        ('Laura', '[Laura] is a film.'), ('B', '[Laura] by [Otto].'), kinds={'Laura': 'person', 'Otto': 'person'}
    )
    assert dict(zip(vocab.names, vocab.kinds)) == {'Laura': 'work', 'B': 'name', 'Otto': 'person'}


def test_a_concept_is_no_name_that_is_spelled_like_it():
    vocab, [document, _] = resolve_marked(
        ('Comedy', '[Comedy] is like [Laura], a [comedy].'), ('B', 'A [Comedy].'), kinds={'comedy': 'concept'}
    )
    meant = [vocab.names[vocab.id_of_key[mention.entity]] for mention in document.mentions or ()]
    assert meant == ['Comedy', 'Laura', 'comedy']
    assert vocab.kinds[vocab.id_of_key['comedy (concept)']] == 'concept'


OKAFOR = {
    'Daniel Okafor': 'person',
    'Okafor': 'person',
    'Lagos': 'place',
    'Toronto': 'place',
    'Nigeria': 'place',
    '3 May 1960': 'date',
    '1999': 'date',
}


@pytest.mark.parametrize(
    'first, second, are_two',
    [
        ('was born in [Lagos]', 'was born in [Toronto]', True),
        ('was born in [Lagos]', 'was born in [Lagos], [Nigeria]', False),
        ('was born in [Lagos]', 'was born on [3 May 1960]', False),
        ('was born on [3 May 1960]', 'was born in [1999]', True),
        ('was born in [Lagos]', 'lives in [Toronto]', False),
    ],
)  # fmt: skip
def test_persons_of_one_name_who_are_born_elsewhere_are_two(first, second, are_two):
    texts = [f'[Daniel Okafor] runs it. [Okafor] {text}.' for text in (first, second)]
    _, (one, other) = resolve_marked(('Brightwater Mills', texts[0]), ('Tidewell Shipping', texts[1]), kinds=OKAFOR)
    keys = [{mention.entity for mention in document.mentions[:2]} for document in (one, other)]
    assert [len(of_document) for of_document in keys] == [1, 1]
    assert (keys[0] != keys[1]) == are_two
