"""Manifests: what they state, and which folders are refused."""

import json

import pytest

from opql_jax.core import files
from opql_jax.core.manifest import FolderFormat, ManifestError, check_files, manifest_hash, read_manifest, write_manifest

TOYS = FolderFormat('opql-toys', 3, 'a box of toys', 'make_toys')


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'part').mkdir()
    (tmp_path / 'part' / 'bear').write_bytes(b'12345')
    (tmp_path / 'ball').write_text('{}')
    names = ('part/bear', 'ball')
    write_manifest(tmp_path, TOYS, {'colour': 'rød'}, {name: files.digest(tmp_path / name) for name in names})
    return tmp_path


def change(folder, **fields):
    path = folder / 'manifest.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_manifest_is_read_as_it_was_written(folder):
    manifest = read_manifest(folder, TOYS)
    check_files(folder, manifest, TOYS)
    assert [*manifest] == ['format', 'version', 'colour', 'files']
    assert (manifest['format'], manifest['version'], manifest['colour']) == ('opql-toys', 3, 'rød')
    assert manifest['files']['ball'] == {
        'bytes': 2,
        'sha256': '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',
    }
    before = manifest_hash(manifest)
    change(folder, colour='blå')
    assert manifest_hash(read_manifest(folder, TOYS)) != before


def test_a_folder_without_a_manifest_is_unfinished(tmp_path):
    with pytest.raises(ManifestError, match='manifest.json: no such file; .* is not a box of toys, or make_toys did not end'):
        read_manifest(tmp_path, TOYS)


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'version': 4}, 'format version 4, this program reads 3; .* delete it and run make_toys again'),
        ({'format': 'opql-memory'}, "not the manifest of a box of toys .no format 'opql-toys'"),
        ({'files': {'ball': 2}}, 'the files it lists have no bytes and sha256'),
        ({'files': None}, 'the files it lists have no bytes and sha256'),
        ({'files': {'../ball': {'bytes': 2, 'sha256': ''}}}, "'../ball' is not the name of a file inside the folder"),
        ({'files': {'/ball': {'bytes': 2, 'sha256': ''}}}, "'/ball' is not the name of a file inside the folder"),
    ],
)
def test_manifests_of_another_kind_are_refused(folder, fields, message):
    change(folder, **fields)
    with pytest.raises(ManifestError, match=message):
        read_manifest(folder, TOYS)


def test_what_is_not_json_is_refused(folder):
    for text in ('{', '[]'):
        (folder / 'manifest.json').write_text(text)
        with pytest.raises(ManifestError, match='manifest.json: not '):
            read_manifest(folder, TOYS)


def test_missing_and_truncated_files_are_named(folder):
    manifest = read_manifest(folder, TOYS)
    (folder / 'part' / 'bear').write_bytes(b'123')
    with pytest.raises(ManifestError, match=r'part/bear: 3 bytes, manifest.json says 5: truncated or overwritten'):
        check_files(folder, manifest, TOYS)
    (folder / 'part' / 'bear').unlink()
    with pytest.raises(ManifestError, match=r'part/bear: listed in manifest.json but missing'):
        check_files(folder, manifest, TOYS)
