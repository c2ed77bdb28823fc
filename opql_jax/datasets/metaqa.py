"""Reader of MetaQA with Wikipedia passages.

The folder holds `passages.jsonl` (`{id, title, text}`; the title is a MetaQA entity),
`entities.txt` (a name per line) and `{1,2,3}-hop/<split>.txt`. The knowledge base that MetaQA comes
with is not read: all that is known here comes from the text.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from pathlib import Path
from typing import ClassVar

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


def read_question_folder(folder, vocab: EntityVocab) -> dict:
    """All `<hops>-hop/<split>.txt` files of a folder (MetaQA format), by '<hops>-hop/<split>'."""
    out = {}
    for path in question_files(folder).values():
        hops = path.parent.name.removesuffix('-hop')
        if not hops.isdigit() or int(hops) < 1:
            raise CorpusError(f"{path.parent}: the folder must be named '<number>-hop'")
        out[f'{hops}-hop/{path.stem}'] = parse_metaqa_file(path, vocab, int(hops))
    if not out:
        raise CorpusError(f'{folder}: no question file such as {folder}/1-hop/train.txt')
    return out


def question_files(folder) -> dict[str, pathlib.Path]:
    return {f'{path.parent.name}/{path.name}': path for path in sorted(pathlib.Path(folder).glob('*-hop/*.txt'))}


@dataclasses.dataclass(frozen=True)
class MetaQA:
    """MetaQA questions over Wikipedia passages, linked by entity names (see the module).

    Attributes:
        folder: holds passages.jsonl, entities.txt and <hops>-hop/<split>.txt.
    """

    paths: ClassVar = ('folder',)
    folder: str

    def files(self):
        folder = pathlib.Path(self.folder)
        return {name: folder / name for name in ('passages.jsonl', 'entities.txt')} | question_files(folder)

    def read(self, rejected_path):
        vocab = entity_vocab(self.folder)
        return vocab, documents(self.folder, vocab, rejected_path=rejected_path)

    def questions(self, vocab):
        return read_question_folder(self.folder, vocab)
