"""A memory's manifest, and the plan of one that is being built; files: `memory/format.py`."""

from typing import Annotated, Literal

import msgspec

from opql_jax.core import files, manifest
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import MANIFEST, FileName, FolderFormat, Manifest, ManifestError

PLAN = 'plan.json'

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Size = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


class Covers(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The text of a memory: its prepared folder, how many passages, and how pairs were chosen."""

    prepared: str
    passages: Count
    pairs: str
    min_count: int
    max_pairs: int | None
    first_passage: Count | None = None


class BuildPlan(Manifest, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """`build.BuildOptions`, the hash of the pairs, and how relations are stored (`relations`)."""

    num_entities: Size
    relation_dim: Size
    hashes: dict[str, str]
    mentions: Literal['all', 'average']
    seed: int
    dtype: Literal['float32', 'float16', 'int8']
    shard_rows: Size
    covers: Covers | None
    pairs_sha256: str
    relations: Literal['rows', 'halves'] = 'rows'

    def __post_init__(self):
        if self.mentions == 'average' and self.relations == 'halves':
            raise InputError(
                "mentions='average': the mean of several relations is no sum of halves"
            )
        if (self.dtype == 'int8') != (self.relations == 'halves'):
            raise InputError(f'relations={self.relations!r} are not stored as {self.dtype}')


class SegmentInfo(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A segment: its folder, entries, entities when it was written, mentions with halves."""

    name: FileName
    num_entries: Size
    num_entities: Size
    num_mentions: Count = 0


class Tombstones(msgspec.Struct, forbid_unknown_fields=True):
    """The file with the ids of deleted entries."""

    file: str
    num_entries: Size


class EntityRows(msgspec.Struct, forbid_unknown_fields=True):
    """The file with the embeddings of injected entities."""

    file: str
    num_entities: Count
    dim: Size


class Injected(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What an injection adds: hashes of its pairs and vocabulary, and the memory's new text."""

    pairs_sha256: str
    vocabulary: str
    covers: Covers | None = None


class MemoryManifest(BuildPlan, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The manifest of a memory."""

    num_entries: Count  # living ones
    num_mentions: Count  # rows of provenance
    next_entry: Count  # the id of the next entry
    segments: list[SegmentInfo]
    tombstones: Tombstones | None
    entity_rows: EntityRows | None
    history: list[str]  # the hashes of the states before, oldest first
    injected: Injected | None  # what the last update added, if it was an injection


FORMAT = FolderFormat('opql-memory', 2, 'a memory', 'build_memory', MemoryManifest)
PLAN_FORMAT = FolderFormat(
    'opql-memory-build', 2, 'an unfinished memory', 'build_memory', BuildPlan, PLAN
)


def read_manifest(directory) -> MemoryManifest:
    """The manifest of a finished memory; ManifestError if there is none that can be read."""
    path = files.path(directory)
    if not (path / MANIFEST).is_file() and (path / PLAN).is_file():
        raise ManifestError(
            f'{path}: the build of this memory is unfinished; run build_memory again with the same '
            'options to resume it'
        )
    return manifest.read_manifest(path, FORMAT)
