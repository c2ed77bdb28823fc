"""Scripts in a process of their own that has 8 virtual CPU devices."""

import os
import pathlib

SUPPORT = pathlib.Path(__file__).parent

# What `make_mesh` is asked for, by the number of devices, or as slices x devices of each.
MESHES = {
    '1': {'data': 1},
    '4': {'data': 4},
    '8': {'data': 4, 'model': 2},
    '2x4': {'slices': 2, 'data': 2, 'model': 2},
}


def slices_and_devices(mesh: str) -> tuple[int | None, int]:
    """How many slices a mesh of such a name has, None if not said, and devices each."""
    *slices, devices = map(int, mesh.split('x'))
    return (slices[0] if slices else None), devices


def row_devices(mesh: str) -> int:
    return slices_and_devices(mesh)[1]


def run(binaries, script: str, *arguments) -> None:
    flags = os.environ.get('XLA_FLAGS', '') + ' --xla_force_host_platform_device_count=8'
    done = binaries.script(SUPPORT / script, *arguments, XLA_FLAGS=flags)
    assert done.returncode == 0, done.stderr[-3000:]
