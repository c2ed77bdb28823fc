"""The wordings that the row `metaqa/opql-wordings` learns from are not those that `benchmarks/paraphrases.py` measures with."""

import pathlib

from opql_jax.corpus.wordings import TOPIC, read_wordings
from opql_jax.recipes.metaqa import WORDINGS

MEASURED = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'metaqa_paraphrases.tsv'


def words(wording):
    """Its words, in lower case and without punctuation."""
    return frozenset(''.join(c if c.isalnum() else ' ' for c in TOPIC.join(wording).lower()).split())


def test_none_is_learnt_from_that_has_the_words_of_one_that_is_measured_with_or_most_of_them():
    learnt, measured = (
        {type: [words(w) for w in of_type] for type, of_type in read_wordings(path).items()} for path in (WORDINGS, MEASURED)
    )
    assert sum(map(len, measured.values())) == 300 and sum(map(len, learnt.values())) > 3000
    every = {wording for of_type in measured.values() for wording in of_type}
    for type, of_type in learnt.items():
        assert not every & set(of_type)
        assert max(len(one & other) / len(one | other) for one in of_type for other in measured[type]) < 0.7


def test_both_ask_for_all_types_of_question():
    learnt, measured = read_wordings(WORDINGS), read_wordings(MEASURED)
    assert learnt.keys() == measured.keys() and len(learnt) == 47
    assert min(map(len, learnt.values())) > 70
    assert all(len(set(of_type)) == len(of_type) for of_type in learnt.values())
