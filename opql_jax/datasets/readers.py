"""The interface between `prepare` and a corpus: a reader, a frozen dataclass, for each data set."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Collection
from typing import ClassVar, Protocol

from opql_jax.core import files as storage
from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question


class Reader(Protocol):
    """A corpus; `paths` are the fields that do not change the data, such as paths."""

    paths: ClassVar[tuple[str, ...]]

    def files(self) -> dict[str, pathlib.Path | bytes]:
        """The input of the other two methods by label: files, or bytes for what is in memory."""
        return {}

    def read(self, rejected_path: pathlib.Path) -> tuple[EntityVocab, Collection[Document]]:
        """Entities and documents; bad records go to `rejected_path`, what takes long beside it."""
        ...

    def questions(
        self, vocab: EntityVocab, rejected_path: pathlib.Path
    ) -> dict[str, list[Question]]:
        """Questions by '<hops>-hop/<split>', after `read`; bad records go to `rejected_path`."""
        return {}


def identity(reader) -> dict:
    """What identifies prepared data: the reader's class, its options, SHA-256 of its input."""
    digests = {label: _sha256(content) for label, content in reader.files().items()}
    return {**_described(reader), 'files': digests}


def _sha256(content: str | pathlib.Path | bytes) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    path = pathlib.Path(content)
    if not path.is_file():
        raise InputError(f'{path}: {"a folder, no file" if path.is_dir() else "no such file"}')
    return storage.sha256(path)


def _described(reader) -> dict:
    """The reader's class and options, without paths; an option may be another reader."""
    described: dict = {'reader': type(reader).__name__}
    for field in dataclasses.fields(reader):
        if field.name not in reader.paths:
            value = getattr(reader, field.name)
            described[field.name] = _described(value) if dataclasses.is_dataclass(value) else value
    return described
