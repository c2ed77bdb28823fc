"""Texts that are in memory become a knowledge base."""

import numpy as np
import pandas as pd
import pytest

import opql_jax
from opql_jax.core.errors import InputError

TEXTS = [
    'Ada Lovelace was an English mathematician. She was the daughter of Lord Byron.',
    'Lord Byron was an English poet. He died in Missolonghi in 1824.',
]
TITLES = ['Ada Lovelace', 'Lord Byron']


@pytest.mark.parametrize(
    'texts',
    [
        [
            {'id': np.int64(1), 'title': TITLES[0], 'text': TEXTS[0], 'mentions': 3},
            {'title': pd.NA, 'text': TEXTS[1]},
        ],
        pd.DataFrame({'text': TEXTS, 'title': [TITLES[0], None], 'id': [7, None], 'year': 1815}),
    ],
    ids=['a list', 'a DataFrame with gaps'],
)
def test_texts_in_memory_are_answered_from(texts, tmp_path):
    kb = opql_jax.index(texts, out=tmp_path / 'kb', processes=1)
    assert kb.ask('Where did the father of Ada Lovelace die?').names[0] == 'Missolonghi'


def test_ids_are_kept_numbers_take_their_place_and_a_path_is_no_text(tmp_path):
    file = tmp_path / 'ada.txt'
    file.write_text(TEXTS[0])
    texts = [{'id': 'byron', 'text': TEXTS[1]}, file, 'Charles Babbage was a friend of Ada.']
    kb = opql_jax.index(texts, out=tmp_path / 'kb', processes=1)
    assert kb.prepared.passages['doc_id'].to_pylist() == ['ada.txt', 'byron', '2']


def test_what_is_no_text_is_refused(tmp_path):
    for texts, message in (
        ([], 'texts: empty'),
        ([TEXTS[0], 3], '^texts: text 1: expected a string'),
        ([TEXTS[0], TEXTS[1], ' '], r'^texts: 1 of 3 texts are bad.*: text 2: text: expected a'),
        (pd.DataFrame({'body': TEXTS}), 'no column "text", but body'),
    ):
        with pytest.raises(InputError, match=message):
            opql_jax.index(texts, out=tmp_path / 'kb', processes=1)
        assert not (tmp_path / 'kb' / 'manifest.json').exists()
