"""Manifests: what they state, and which folders are refused."""

import json

import pytest
from damage import edit, flip

from opql_jax.core import files
from opql_jax.core.manifest import (
    FolderFormat,
    Manifest,
    ManifestError,
    check_files,
    checked_file,
    is_folder_of,
    manifest_hash,
    read_manifest,
    verify_files,
    write_manifest,
)

SHA = '0' * 64


class Toys(Manifest, forbid_unknown_fields=True, kw_only=True):
    colour: str


TOYS = FolderFormat('opql-toys', 3, 'a box of toys', 'make_toys', Toys)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'part').mkdir()
    (tmp_path / 'part' / 'bear').write_bytes(b'12345')
    (tmp_path / 'ball').write_text('{}')
    names = ('part/bear', 'ball')
    digests = {name: files.digest(tmp_path / name) for name in names}
    write_manifest(tmp_path, TOYS, {'colour': 'rød'}, digests)
    return tmp_path


def test_a_manifest_is_read_as_it_was_written(folder):
    manifest = read_manifest(folder, TOYS)
    check_files(folder, manifest, TOYS)
    written = json.loads((folder / 'manifest.json').read_text())
    assert list(written) == 'colour format version files checksum'.split()
    assert (manifest.format, manifest.version, manifest.colour) == ('opql-toys', 3, 'rød')
    before = manifest_hash(manifest)
    edit(folder, colour='blå')
    assert manifest_hash(read_manifest(folder, TOYS)) != before


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'version': 2}, 'version 2, this program reads 3; delete /.*[^/] and run make_toys again'),
        ({'version': 4}, 'version 4, this program reads 3: a newer opql_jax wrote .*; update opql'),
        ({'format': 'opql-memory'}, "not the manifest of a box of toys .no format 'opql-toys'"),
        ({'color': 'red'}, 'contains unknown field `color`'),
    ],
)
def test_manifests_of_another_kind_are_refused(folder, fields, message):
    edit(folder, **fields)
    with pytest.raises(ManifestError, match=message):
        read_manifest(folder, TOYS)


def test_whose_a_folder_is_stands_in_its_manifest(folder):
    assert is_folder_of(folder, TOYS)
    for content in (b'', b'mine', b'[]', b'{"format": "opql-memory"}', b'\xff'):
        (folder / 'manifest.json').write_bytes(content)
        assert not is_folder_of(folder, TOYS)
    assert not is_folder_of(folder / 'part', TOYS)


OUTSIDE = '../ball /ball a/../../ball a//ball ./ball a\\ball manifest.json gs://b/c'.split()


@pytest.mark.parametrize('name', [*OUTSIDE, '', 'a\nb'])
def test_names_that_are_not_of_a_file_inside_the_folder_are_refused(folder, name):
    edit(folder, files={name: {'bytes': 2, 'sha256': SHA}})
    with pytest.raises(ManifestError, match='is not the name of a file inside the folder'):
        read_manifest(folder, TOYS)


def test_a_file_is_compared_with_its_digest_before_it_is_read(folder):
    manifest = read_manifest(folder, TOYS)
    assert checked_file(folder, 'ball', manifest, TOYS) == folder / 'ball'
    verify_files(folder, manifest, TOYS)
    flip(folder / 'ball')
    check_files(folder, manifest, TOYS)  # it has its size
    for check in (lambda *of: checked_file(of[0], 'ball', *of[1:]), verify_files):
        message = 'ball: its sha256 is not the one in manifest.json: damaged or overwritten'
        with pytest.raises(ManifestError, match=message):
            check(folder, manifest, TOYS)
    with pytest.raises(ManifestError, match='manifest.json: lists no file doll'):
        checked_file(folder, 'doll', manifest, TOYS)
