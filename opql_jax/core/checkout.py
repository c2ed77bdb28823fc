"""The project's own files, of a checkout or the package: gin files, tables, released models."""

import pathlib
import re
import tomllib

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
IN_CHECKOUT = (_PACKAGE.parent / 'gin' / 'train.gin').is_file()
# Gin files are named from here: 'gin/runs/eval.gin'.
GIN_ROOT = _PACKAGE.parent if IN_CHECKOUT else _PACKAGE
RELEASED_ENCODER = _PACKAGE / 'released' / 'default'
RELEASED_READER = _PACKAGE / 'released' / 'reader'


def with_includes(path: pathlib.Path) -> str:
    """The text of a gin file, with included files in place of the lines that include them."""
    included = lambda match: with_includes(GIN_ROOT / match[1])
    return re.sub(r"^include '(.+)'$", included, path.read_text(encoding='utf-8'), flags=re.M)


def load_toml(name: str) -> dict:
    """The content of a table of data, by its path in the package."""
    return tomllib.loads((_PACKAGE / name).read_text(encoding='utf-8'))
