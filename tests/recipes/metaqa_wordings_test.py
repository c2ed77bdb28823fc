"""The wordings that the row `metaqa/opql-wordings` learns from are not those that `benchmarks/paraphrases.py` measures with."""

import pathlib

from opql_jax.corpus.wordings import TOPIC, read_wordings
from opql_jax.recipes.metaqa import WORDINGS

MEASURED = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'metaqa_paraphrases.tsv'


def plain(wording):
    """Its words, in lower case and without punctuation."""
    return ' '.join(''.join(c if c.isalnum() else ' ' for c in TOPIC.join(wording).lower()).split())


def test_none_is_learnt_from_that_is_measured_with():
    learnt, measured = (
        {plain(w) for of_type in read_wordings(path).values() for w in of_type} for path in (WORDINGS, MEASURED)
    )
    assert len(measured) == 300 and len(learnt) > 3000
    assert not learnt & measured


def test_both_ask_for_all_types_of_question():
    learnt, measured = read_wordings(WORDINGS), read_wordings(MEASURED)
    assert learnt.keys() == measured.keys() and len(learnt) == 47
    assert min(map(len, learnt.values())) > 70
    assert all(len(set(of_type)) == len(of_type) for of_type in learnt.values())
