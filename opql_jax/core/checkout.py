"""Where the project's own files lie: gin files, and the released encoder.

Gin files stand at the top of a checkout, and inside of the package where that was installed.
"""

import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
IN_CHECKOUT = (_PACKAGE.parent / 'gin' / 'train.gin').is_file()
# Gin files are named from here: 'gin/runs/eval.gin'.
GIN_ROOT = _PACKAGE.parent if IN_CHECKOUT else _PACKAGE
# The encoder that comes with the package.
RELEASED_ENCODER = _PACKAGE / 'released' / 'default'
# The reader that comes with it.
RELEASED_READER = _PACKAGE / 'released' / 'reader'
