"""The MetaQA reader on a folder of its shape."""

import json

import pytest

from opql_jax.corpus.documents import CorpusError
from opql_jax.datasets import metaqa


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'entities.txt').write_text('drama\nDrama\nUp\nAnn Low\n', encoding='utf-8')
    (tmp_path / 'passages.jsonl').write_text(
        json.dumps({'id': 0, 'title': 'Up', 'year': 2009, 'text': 'Up is a drama by Ann Low.'}) + '\n'
    )
    (tmp_path / '2-hop').mkdir()
    (tmp_path / '2-hop' / 'dev.txt').write_text('films like [Up]\tUp\tmovie_to_x_to_movie\t1\n')
    return tmp_path


def test_case_variants_in_the_entity_list_are_one_entity(folder):
    vocab = metaqa.entity_vocab(folder)
    assert vocab.keys == ['drama', 'Up', 'Ann Low'] and vocab.aliases[0] == ['Drama']


def test_passages_are_about_their_title_and_carry_no_mentions(folder):
    (document,) = metaqa.documents(folder, metaqa.entity_vocab(folder), rejected_path=folder / 'rejected.jsonl')
    assert (document.id, document.title, document.title_entity, document.mentions) == ('0', 'Up', 'Up', None)


def test_questions_are_found_by_split_and_hops(folder):
    (question,) = metaqa.questions(folder, metaqa.entity_vocab(folder), 'dev', 2)
    assert (question.topic_entity, question.answers, question.hops) == (1, [1], 2)


def test_what_is_missing_or_unknown_is_named(folder):
    vocab = metaqa.entity_vocab(folder)
    with pytest.raises(CorpusError, match=r'3-hop.*train\.txt: cannot be read'):
        metaqa.questions(folder, vocab, 'train', 3)
    (folder / 'passages.jsonl').write_text(json.dumps({'id': 4, 'title': 'Down', 'text': 'x'}) + '\n')
    with pytest.raises(CorpusError, match=r"passages\.jsonl: document '4': title: unknown entity 'Down'"):
        metaqa.documents(folder, vocab, rejected_path=folder / 'rejected.jsonl')
    (folder / 'entities.txt').write_text('\n')
    with pytest.raises(CorpusError, match='no entity name'):
        metaqa.entity_vocab(folder)
