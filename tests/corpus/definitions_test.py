import pytest

from opql_jax.corpus.definitions import defined_kind, definition, subject


@pytest.mark.parametrize(
    'text, words',
    [
        ('Fatso is a 1980 American comedy film written and directed by Anne Bancroft.', '1980 American comedy film'),
        ('The Isar is a river in Bavaria.', 'river'),
        ('Ada Lovelace was an English mathematician and writer, born in London.', 'English mathematician writer'),
        ('They are two rock bands that tour.', 'rock bands'),
        ('Coraline is an animated film starring Teri Hatcher.', 'animated film'),
        ('She met a man.', ''),
        ('It is over.', ''),
        ('It is a', ''),
        ('', ''),
    ],
)
def test_the_words_of_a_definition_end_where_its_noun_phrase_does(text, words):
    assert ' '.join(text[start:end] for start, end in definition(text)) == words


def test_only_the_beginning_defines():
    assert not list(definition('Much was said of it. ' * 30 + 'It is a river.'))


@pytest.mark.parametrize(
    'text, kind',
    [
        ('Laura is a 1944 American film noir.', None),
        ('Laura is a 1944 American film.', 'work'),
        ('Oslo is the capital of Norway.', 'place'),
        ('Ada Lovelace was a mathematician and writer.', 'person'),
        ('Acme is a company that makes pumps.', 'organisation'),
        ('The Isar is a filmy river.', None),
        ('It rained.', None),
    ],
)
def test_the_noun_of_a_definition_tells_the_kind_of_the_subject(text, kind):
    assert defined_kind(text) == kind


def test_the_subject_is_the_name_that_a_text_begins_with_and_defines():
    assert subject('Casablanca is an American film.') == 'Casablanca'
    assert subject('The Henry Art Gallery (opened 1927) is a museum.') == 'Henry Art Gallery'
    assert subject('Dave Scott Feitl (born ) was a player') == 'Dave Scott Feitl'
    assert subject('"Bad Blood" is a song by Taylor Swift.') == 'Bad Blood'
    for text in (
        'This is a list.',
        'There is a town.',
        'In 1984 it was a hit.',
        'casablanca is a film',
        'Ada met Bo. Bo is a man.',
        'Ada is',
        '',
    ):
        assert subject(text) is None, text
