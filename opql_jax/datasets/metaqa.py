"""Reader of MetaQA with Wikipedia passages.

The folder holds `passages.jsonl` (`{id, title, text}`; the title is a MetaQA entity),
`entities.txt` (a name per line) and `{1,2,3}-hop/<split>.txt`. The knowledge base that MetaQA comes
with is not read: all that is known here comes from the text.
"""

from __future__ import annotations

import os
from pathlib import Path

from opql_jax.corpus.documents import CorpusError, Document, read_jsonl
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question, parse_metaqa_file


def entity_vocab(folder: str | os.PathLike) -> EntityVocab:
    """The entities of `entities.txt`.

    Its lower-case tags ('drama', 'clint eastwood') double names, so spellings that differ only by
    case are one entity.
    """
    path = Path(folder) / 'entities.txt'
    try:
        names = path.read_text(encoding='utf-8').split('\n')
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f'{path}: cannot be read ({error})') from error
    vocab = EntityVocab.from_names(name.rstrip('\r') for name in names if name.strip())
    if not len(vocab):
        raise CorpusError(f'{path}: no entity name in the file')
    return vocab


def documents(folder: str | os.PathLike, vocab: EntityVocab, *, rejected_path: str | os.PathLike) -> list[Document]:
    """The passages, about the entity their title names and without mentions: those are linked by name.

    Raises:
        CorpusError: a file is missing or broken, or a title is no entity of `vocab`.
    """
    read = []
    for document in read_jsonl(Path(folder) / 'passages.jsonl', rejected_path=rejected_path):
        try:
            entity = vocab.keys[vocab.id(document.title)]
        except CorpusError as error:
            raise CorpusError(f'{Path(folder) / "passages.jsonl"}: document {document.id!r}: title: {error}') from error
        read.append(Document(document.id, document.title, document.text, title_entity=entity))
    return read


def questions(folder: str | os.PathLike, vocab: EntityVocab, split: str, hops: int) -> list[Question]:
    """The questions of `{hops}-hop/{split}.txt`; split is 'train', 'dev', ..."""
    return parse_metaqa_file(Path(folder) / f'{hops}-hop' / f'{split}.txt', vocab, hops)
