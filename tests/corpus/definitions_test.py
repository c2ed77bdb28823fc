from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.definitions import defined_kind, definition, guides_to, subject

from examples import table


@table("""
    text | words
    Fatso is a 1980 American comedy film written by Anne Bancroft. | 1980 American comedy film
    The Isar is a river in Bavaria. | river
    Ada was an English mathematician and writer, born in London. | English mathematician writer
    It is a |
""")
def test_the_words_of_a_definition_end_where_its_noun_phrase_does(text, words):
    assert ' '.join(text[start:end] for start, end in definition(text)) == words


def test_only_the_beginning_defines():
    assert not list(definition('Much was said of it. ' * 30 + 'It is a river.'))


@table("""
    text | kind
    Laura is a 1944 American film noir. |
    Laura is a 1944 American film. | work
    Oslo is the capital of Norway. | place
    Acme is a company that makes pumps. | organisation
    It rained. |
""")
def test_the_noun_of_a_definition_tells_the_kind_of_the_subject(text, kind):
    assert (defined_kind(text) or '') == kind


@table("""
    text | name
    The Henry Art Gallery (opened 1927) is a museum. | Henry Art Gallery
    "Bad Blood" is a song by Taylor Swift. | Bad Blood
    ``Hello Goodbye ''is a song by the Beatles. | Hello Goodbye
    Martin Luther King Jr. (1929–1968) was an American minister. | Martin Luther King Jr.
    Star Trek: The Motion Picture is a 1979 film. | Star Trek: The Motion Picture
    Salem, Oregon is a city. | Salem, Oregon
    Myanmar, also known as Burma, is a country in Asia. | Myanmar
    The Meno (Greek: Μένων (Menōn)) is a dialogue by Plato. | Meno
    Who Framed Roger Rabbit is a 1988 film. | Who Framed Roger Rabbit
    "Today" is a song. | Today
    This is a list. |
    In 1984 it was a hit. |
    casablanca is a film |
    Ada met Bo. Bo is a man. |
    Ada met Mr. B. He is a man. |
    He lived in Washington D.C. It is a city. |
    My father was a smith. |
    Today is a holiday. |
    In Oslo, Ada is a saint. |
    Born in Oslo, Ada was a singer. |
    Although a friend was the first, few knew it. |
    Letters show that Ada was a smith. |
    Ada is |
""")
def test_the_subject_is_the_name_that_a_text_begins_with_and_defines(text, name):
    assert (subject(text) or '') == name


@given(st.text())
def test_a_subject_is_a_piece_of_the_text_and_begins_with_no_lower_case(text):
    for whole in (text, f'{text} is a river.'):
        if (name := subject(whole)) is not None:
            assert name in whole and name == name.strip() and not name[0].islower()


def test_a_guide_is_about_what_it_is_a_guide_to():
    guides = (
        'Osprey administrator handbook',
        'A short guide to Osprey',
        'Introduction to the Osprey',
    )
    others = 'Osprey', 'Guide to birds', 'A guide to Osprey Falls'
    assert all(guides_to(title, 'Osprey') for title in guides)
    assert not any(guides_to(title, 'Osprey') for title in others)
