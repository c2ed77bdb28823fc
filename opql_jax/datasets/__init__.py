"""Public data sets and your own text: one file each, with its reader (see `readers`)."""

import importlib.resources
import tomllib


def load_toml(name: str) -> dict:
    """The content of a TOML file, by its path in this folder."""
    return tomllib.loads((importlib.resources.files(__name__) / name).read_text('utf-8'))
