"""Words of passages and questions meet in one stem, whatever their case, accents and inflection."""

from opql_jax.retrieval.words import words_of

from examples import lines


def test_forms_of_a_word_have_one_stem():
    for words in lines("""
        directed directing directs director
        city cities City
        Aschenbrödel aschenbrodel
        publisher published publishes
        stopped stop
    """):
        assert len(set(words_of(words))) == 1, words


def test_short_words_keep_their_ends():
    for words in ('king kin', 'bus bu', 'red r', 'ring r', '1995 1996'):
        assert len(set(words_of(words))) == 2, words


def test_function_words_and_punctuation_are_left_out_and_order_kept():
    assert words_of('Who was the king of Spain, in 1500?') == ['king', 'spain', '1500']
    assert words_of('') == words_of('the of…') == []
