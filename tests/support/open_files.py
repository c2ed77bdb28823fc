"""The files that this process has open."""

import os
import pathlib


def open_under(folder: pathlib.Path) -> set[str]:
    """Files and folders at or under a folder that this process has a descriptor of, or has mapped into memory."""
    held = {line.split(maxsplit=5)[5].strip() for line in open('/proc/self/maps') if len(line.split(maxsplit=5)) > 5}
    for descriptor in pathlib.Path('/proc/self/fd').iterdir():
        try:
            held.add(os.readlink(descriptor))
        except FileNotFoundError:  # that which listed the folder
            continue
    return {path for path in held if pathlib.Path(path).is_relative_to(folder)}
