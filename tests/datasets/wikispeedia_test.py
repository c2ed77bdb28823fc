"""The Wikispeedia reader: text browser output to prose, links to mentions."""

import gzip
import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Mention
from opql_jax.datasets import wikispeedia

ARTICLE = """   #copyright

Red giant

2007 Schools Wikipedia Selection. Related subjects: Space and
other things

   Red giant
   Radius      many metres

   A picture of a big star whose caption is so long that it is wrapped to
   the next line.
   Enlarge
   A picture of a big star whose caption is so long that it is wrapped to
   the next line.

   According to the ( Danish) diagram, a red giant is a " cool" star, so-named^[3] for
   its helium.

   The Sun itself, 1862
   The Sun itself, 1862

     * The first item is long enough to be wrapped to a second line in the
       list.
     * Too short
    1. The second item has five words

   Retrieved from " http://en.wikipedia.org/wiki/Red_giant"
"""

PROSE = [
    'According to the (Danish) diagram, a red giant is a "cool" star, so-named for its helium.',
    'The first item is long enough to be wrapped to a second line in the list.',
    'The second item has five words',
]


def test_only_prose_and_list_items_remain():
    assert wikispeedia.clean(ARTICLE).split('\n') == PROSE


def write(path, *articles):
    with gzip.open(path, 'wt', encoding='utf-8') as file:
        for article in articles:
            file.write(json.dumps(dict(zip(('page', 'title', 'text'), article))) + '\n')


@pytest.fixture
def folder(tmp_path):
    sun, helium = '   The Sun is a star near us.\n', '   #copyright\n'
    giant = 'Red_giant', 'Red giant', ARTICLE
    others = ('Sun', 'Sun', sun), ('Helium', 'Helium', helium)
    write(tmp_path / 'articles.jsonl.gz', giant, *others)
    (tmp_path / 'links.tsv').write_text('# links\n\nRed_giant\tHelium\n')
    return tmp_path


def test_mentions_are_the_article_itself_and_its_link_targets(folder):
    vocab = wikispeedia.entity_vocab(folder)
    giant, sun = wikispeedia.documents(folder, vocab)
    assert (giant.id, giant.title, giant.title_entity) == ('Red_giant', 'Red giant', 'Red giant')
    found = [giant.text[m.start : m.end] for m in giant.mentions]
    assert found == ['red giant', 'helium']
    assert giant.mentions[1].entity == 'Helium'
    assert sun.mentions == (Mention(4, 7, 'Sun'),)


def test_broken_files_are_named(folder):
    vocab = wikispeedia.entity_vocab(folder)
    (folder / 'links.tsv').write_text('# links\nRed_giant\n')
    with pytest.raises(InputError, match=r'links\.tsv:2: expected source<TAB>target'):
        list(wikispeedia.documents(folder, vocab))
    path = folder / 'articles.jsonl.gz'
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r'articles\.jsonl\.gz: truncated or damaged'):
        wikispeedia.entity_vocab(folder)
    write(path, ('x',))
    with pytest.raises(InputError, match=r'articles\.jsonl\.gz:1: no object of page, title, text'):
        wikispeedia.entity_vocab(folder)
