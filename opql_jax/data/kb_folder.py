"""A knowledge base is one folder, whose parts are folders with names of the user's choice.

    films.kb/
      manifest.json         which parts answer questions
      text/                 prepared text, written by `prepare`
      relations/ follow/    trained models, written by `train`
      memory/               a memory, written by `build_memory`
      retrieval/            of plain text: an index of passages; `opql index` writes all of these
      question-map/         what it learnt from questions, written by `opql train`
      cache/                recognised names, and passages that an interrupted change has encoded
      text-2/ memory-2/     the parts of a later version, of `opql add` and `opql remove`

The manifest names the parts that belong together, and has a checksum. The memory is null for a
language model without one; "retrieval" and "question_map" are there if there are such.
"""

import contextlib
import logging
import os
import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

from etils import epath

from opql_jax.core import files, locks
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import short_repr

_log = logging.getLogger(__name__)

# A name of a direct subfolder, other than the manifest's, that is valid Unicode.
_NAME = re.compile(rf'(?!{re.escape(manifest_lib.MANIFEST)}$)\w[^/\\\x00-\x1f\ud800-\udfff]*')
# Bytes of a name on disk.
_LONGEST = 255
_TRAIN = (
    'run `opql index` again, or train the model that is to answer (`train` writes this file when '
    'it ends), or name TEXT, MODEL and MEMORY'
)
_ADVICE = f'delete this file, and {_TRAIN}'
# One of these files appears in a part soon after its lock.
_BEGUN = (manifest_lib.MANIFEST, 'plan.json', 'config.json', 'model.json')
# Seconds to wait for another writer: the manifest is written at once.
_PATIENCE = 60.0


class KBManifest(manifest_lib.Header, forbid_unknown_fields=True, kw_only=True):
    """The parts that answer, by their names."""

    text: str
    model: str
    memory: str | None
    retrieval: str | None = None
    question_map: str | None = None


FORMAT = manifest_lib.FolderFormat(
    'opql-kb', 1, 'a knowledge base', 'train', KBManifest, repair=_ADVICE
)


class KBFolder:
    """The folder of a knowledge base, on disk or in a bucket; it need not exist yet."""

    def __init__(self, path: str | os.PathLike):
        self.path = files.path(path)
        self.manifest = self.path / manifest_lib.MANIFEST

    def part(self, name: str | os.PathLike, new: bool = False) -> pathlib.Path | epath.Path:
        """The folder of a part by its name, or any folder by its path, which has a slash.

        The part need not exist if it is `new`. InputError: the name is not one of a folder, there
        is no such knowledge base, or the part is a link.
        """
        name = self._own_name(name)
        if '/' in name:
            return files.path(name)
        if not _NAME.fullmatch(name):
            raise InputError(f'{name!r}: give a path, or the plain name of a folder in {self.path}')
        if not new:
            self._require_folder()
        return files.below(self.path, name)

    def _own_name(self, name: str | os.PathLike) -> str:
        """The name of a part for a path to a folder in this one; trailing slashes are dropped."""
        name = os.fspath(name)
        name = name.rstrip('/') or name
        if '/' not in name or files.is_remote(name) != files.is_remote(self.path):
            return name
        plain = lambda path: path if files.is_remote(path) else path.resolve()
        path = files.path(name)
        is_part = _NAME.fullmatch(path.name) and plain(path.parent) == plain(self.path)
        return path.name if is_part else name

    def _require_folder(self) -> None:
        if not self.path.is_dir():
            found = 'is a file' if self.path.exists() else 'does not exist'
            raise InputError(f'{self.path} {found}: give the folder of a knowledge base (KB)')

    def choose(self, **names: str | None) -> dict[str, Any]:
        """Completes a choice of `text`, `model` and `memory` by the manifest, where they are None.

        The memory stays None if all else is named and there is no manifest. InputError: a name is
        missing, and there is no valid manifest.
        """
        names = {name: value and self._own_name(value) for name, value in names.items()}
        missing = [name for name, value in names.items() if value is None]
        if not missing or (missing == ['memory'] and len(names) > 1 and not self.manifest.exists()):
            return names
        stated = self.read()
        return {name: stated[name] if value is None else value for name, value in names.items()}

    def read(self) -> dict[str, str | None]:
        """The stated parts; InputError: no manifest, a damaged one, or one of no folder here."""
        self._require_folder()
        if not self.manifest.exists():
            # Links are left out, as nothing behind them is looked at.
            parts = [p for p in self.path.iterdir() if p.is_dir() and not os.path.islink(p)]
            if inner := [part for part in parts if manifest_lib.is_folder_of(part, FORMAT)]:
                raise InputError(f'{self.path} is no knowledge base: did you mean {inner[0]}?')
            inside = (path for part in parts for path in part.iterdir())
            if not any(path.name in _BEGUN or locks.is_lock(path) for path in inside):
                raise InputError(
                    f'{self.path} holds no knowledge base: give the folder of '
                    'one, or make one, of text that is there: opql index '
                    f'{shlex.quote(os.fspath(self.path))} --out my.kb'
                )
            raise InputError(
                f'{self.manifest}: no such file, so {self.path} is no knowledge base yet: {_TRAIN}'
            )
        stated = manifest_lib.read_manifest(self.path, FORMAT)
        optional = ('retrieval', 'question_map')
        parts = {name: getattr(stated, name) for name in ('text', 'model', 'memory', *optional)}
        parts = {n: v for n, v in parts.items() if v is not None or n not in optional}
        if stated.retrieval is not None and stated.memory is None:
            raise InputError(
                f'{self.manifest}: memory: null, but a text with an index has one: {_ADVICE}'
            )
        for name, value in parts.items():
            if value is not None and not (
                _NAME.fullmatch(value) and len(os.fsencode(value)) <= _LONGEST
            ):
                problem = f'{name}: {short_repr(value)} is not the name of a folder in {self.path}'
                raise InputError(f'{self.manifest}: {problem}: {_ADVICE}')
        return parts

    def stated(self) -> dict[str, str | None] | None:
        """`read`, or None if there is no manifest yet."""
        return self.read() if self.manifest.exists() else None

    def write(
        self,
        *,
        text: str,
        model: str,
        memory: str | None,
        retrieval: str | None = None,
        again: bool = False,
    ) -> None:
        """States which parts answer; the manifest stays where one of them is not in this folder.

        If the same was stated before (`again`), it stays, too, if it names this model and memory:
        another text was injected since. InputError: the manifest that is there is damaged, or that
        of something else.
        """
        named = {'text': text, 'model': model, 'memory': memory}
        named |= {'retrieval': retrieval} if retrieval else {}
        parts = {name: value and self._own_name(value) for name, value in named.items()}
        with locks.writer(self.path, patience=_PATIENCE):
            before = self.stated()
            learnt = (before or {}).get('question_map')
            with_map = parts | {'question_map': learnt}
            if learnt and before == with_map and (self.path / learnt).is_dir():
                parts = before
            if not (again and before and before | {'text': ''} == parts | {'text': ''}):
                self._state(parts)

    def change(self, stated: dict[str, str | None], **parts: str) -> None:
        """States other parts in place of some of `stated`; InputError if others answer by now."""
        with locks.writer(self.path, patience=_PATIENCE):
            before = self.stated() or {}
            if before | {'question_map': None} != stated | {'question_map': None}:
                raise InputError(f'{self.manifest} has changed meanwhile: run it again')
            self._state(before | parts)

    @contextlib.contextmanager
    def hold(self) -> Iterator[dict[str, str | None]]:
        """The parts that answer (`read`), which stay on disk while the context lasts."""
        while True:
            stated = self.read()
            with locks.shared(self.path, filter(None, stated.values())):
                if self.read() == stated:
                    yield stated
                    return

    def move_text(self, memory: str, text: str) -> None:
        """States the text that was injected into a memory, if it is this memory that answers."""
        with locks.writer(self.path, patience=_PATIENCE):
            if (before := self.stated()) and before['memory'] == memory:
                self._state(before | {'text': text})

    def _state(self, parts):
        if elsewhere := [name for name in parts.values() if name and '/' in name]:
            _log.info('%s stays: %s is no part of the knowledge base', self.manifest, elsewhere[0])
            return
        manifest_lib.write_manifest(self.path, FORMAT, parts)
        _log.info('%s now answers with %s', self.path, ', '.join(filter(None, parts.values())))
