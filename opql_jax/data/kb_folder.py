"""A knowledge base is one folder, whose parts are folders with names of the user's choice.

    films.kb/
      manifest.json         which parts answer questions
      text/                 prepared text, written by `prepare`
      relations/ follow/    trained models, written by `train`
      memory/               a memory, written by `build_memory`

The manifest holds {"format": "opql-kb", "version": 1, "text": "text", "model": "follow", "memory": "memory"}, parts that belong together.
The memory is null for a language model without one.
"""

import json
import logging
import os
import pathlib
import re
from typing import Any

from etils import epath

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import MANIFEST

_log = logging.getLogger(__name__)

FORMAT = 'opql-kb'
_HEADER = {'format': FORMAT, 'version': 1}
# A name that cannot lead out of the folder, nor be taken for its manifest.
_NAME = re.compile(rf'(?!{re.escape(MANIFEST)}$)\w[^/\\\x00-\x1f]*')
_ADVICE = 'train the model that is to answer again (`train` writes this file when it ends), or name TEXT, MODEL and MEMORY'


class KBFolder:
    """The folder of a knowledge base, on disk or in a bucket; it need not exist yet."""

    def __init__(self, path: str | os.PathLike):
        self.path = files.path(path)
        self.manifest = self.path / MANIFEST

    def part(self, name: str | os.PathLike) -> pathlib.Path | epath.Path:
        """The folder of a part by its name, or any folder by its path.

        A path is what has a slash, such as 'other.kb/align'; it begins at the working directory.

        Raises:
            InputError: the name is not one of a folder.
        """
        name = _without_trailing_slash(os.fspath(name))
        if '/' not in name and not _NAME.fullmatch(name):
            raise InputError(f'{name!r} cannot name a part of {self.path}: give the plain name of a folder in it, or a path')
        return files.path(name) if '/' in name else self.path / name

    def choose(self, **names: str | None) -> dict[str, Any]:
        """Completes a choice of parts: a name that is None becomes that of the manifest.

        Args:
            **names: any of `text`, `model` and `memory`. The memory stays None if all else is named and there is no manifest.

        Raises:
            InputError: a name is missing, and there is no manifest, or not a valid one.
        """
        missing = [name for name, value in names.items() if value is None]
        if not missing or (missing == ['memory'] and len(names) > 1 and not self.manifest.exists()):
            return names
        stated = self.read()
        return {name: stated[name] if value is None else value for name, value in names.items()}

    def read(self) -> dict[str, str | None]:
        """The parts that the manifest states: text, model, memory.

        Raises:
            InputError: there is no manifest, or it is damaged, or names anything but folders in this one.
        """
        if not self.manifest.exists():
            raise InputError(f'{self.manifest}: no such file, so {self.path} does not say which of its parts answer: {_ADVICE}')
        try:
            manifest = json.loads(self.manifest.read_text(encoding='utf-8'))
        except (ValueError, RecursionError) as error:
            raise InputError(f'{self.manifest}: not valid JSON ({error}): {_ADVICE}') from error
        if not isinstance(manifest, dict) or manifest.get('format') != _HEADER['format']:
            raise InputError(
                f'{self.manifest}: not the manifest of a knowledge base: name the folder that the text is a part of'
            )
        if manifest.get('version') != _HEADER['version']:
            raise InputError(
                f'{self.manifest}: format version {manifest.get("version")}, this program reads {_HEADER["version"]}: {_ADVICE}'
            )
        parts = {name: value for name, value in manifest.items() if name not in _HEADER}
        if unfit := parts.keys() ^ {'text', 'model', 'memory'}:
            raise InputError(f'{self.manifest}: {min(unfit)}: the fields are text, model and memory: {_ADVICE}')
        for name, value in parts.items():
            if not (isinstance(value, str) and _NAME.fullmatch(value)) and (name, value) != ('memory', None):
                raise InputError(f'{self.manifest}: {name}: {value!r} is not the name of a folder in {self.path}: {_ADVICE}')
        return parts

    def write(self, *, text: str, model: str, memory: str | None) -> None:
        """States which parts answer, in place of those that did. Where one of them is not in this folder, the manifest stays as it is."""
        text, model = _without_trailing_slash(text), _without_trailing_slash(model)
        memory = _without_trailing_slash(memory) if memory else None
        if elsewhere := [name for name in (text, model, memory or '') if '/' in name]:
            _log.info('%s is left as it is: %s is no part of the knowledge base', self.manifest, elsewhere[0])
            return
        with files.atomic_path(self.manifest) as partial:
            fields = {**_HEADER, 'text': text, 'model': model, 'memory': memory}
            partial.write_text(json.dumps(fields, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
        _log.info('%s now answers with %s', self.path, ', '.join(filter(None, (text, model, memory))))


def _without_trailing_slash(name: str) -> str:
    """A name as it was meant: shells complete the names of folders with a slash."""
    return name.rstrip('/') or name
