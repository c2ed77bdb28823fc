"""requirements-lock.txt pins and hashes all that setup.py asks for, and can be audited."""

import os
import re
import runpy
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stand_in_hosts import ROOT, Host

LOCK = ROOT / 'requirements-lock.txt'
LISTS = runpy.run_path(str(ROOT / 'setup.py'), run_name='setup')


def locked(text):
    """{name: (pinned requirements, hashes)} of a lock; fails on any other line but comments."""
    pins: dict[str, tuple[list, list]] = {}
    name = ''
    for line in text.splitlines():
        if line.startswith('    '):
            digest = re.fullmatch(r' {4}--hash=sha256:([0-9a-f]{64})( \\)?', line)
            assert digest, line
            pins[name][1].append(digest[1])
        elif not line.startswith('#'):
            requirement = Requirement(line.removesuffix(' \\'))
            assert re.fullmatch(r'==[^*,]+', str(requirement.specifier)), line
            assert not requirement.url, line
            name = canonicalize_name(requirement.name)
            pins.setdefault(name, ([], []))[0].append(requirement)
    return pins


@pytest.mark.parametrize('extra', ['core', *LISTS['EXTRAS']])
def test_what_setup_asks_for_is_pinned_within_its_bounds_with_hashes(extra):
    pins = locked(LOCK.read_text(encoding='utf-8'))
    assert {'pip', 'setuptools'} <= pins.keys() and all(hashes for _, hashes in pins.values())
    for line in LISTS['CORE'] if extra == 'core' else LISTS['EXTRAS'][extra]:
        asked = Requirement(line)
        versions = [str(pin.specifier)[2:] for pin in pins[canonicalize_name(asked.name)][0]]
        assert versions and all(map(asked.specifier.contains, versions)), (line, versions)


def test_an_environment_is_installed_by_hashes_and_the_project_without_dependencies(tmp_path):
    host = Host(tmp_path)
    assert host('test.sh')[0] == 0
    *locked_installs, project = host.installs()
    assert len(locked_installs) == 3
    assert all('--require-hashes' in install for install in locked_installs)
    assert all('--no-build-isolation' in install for install in locked_installs[1:])
    assert project[-4:] == ['--no-deps', '--no-build-isolation', '-e', '.']


@pytest.mark.slow
def test_no_locked_version_has_a_known_vulnerability():
    flags = '--require-hashes --disable-pip --progress-spinner=off --vulnerability-service=osv'
    command = [sys.executable, '-m', 'pip_audit', *flags.split(), '-r', LOCK]
    options = {'timeout': 600, 'env': os.environ | {'NO_PROXY': '127.0.0.1'}}
    run = subprocess.run(command, capture_output=True, text=True, **options)
    if re.search(r'exceptions\.(Connection|Proxy|SSL)Error|(Connect|Read)Timeout', run.stderr):
        pytest.skip('the service of vulnerabilities cannot be reached')
    assert run.returncode == 0, run.stdout + run.stderr
