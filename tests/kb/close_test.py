"""A knowledge base that is closed: what it releases, and what it says afterwards."""

import os
import pathlib
import shutil

import pytest

import opql_jax
from opql_jax.core.errors import InputError

QUESTION = 'Who designed the Analytical Engine?'


@pytest.fixture
def folder(engine_folder, tmp_path):
    return pathlib.Path(shutil.copytree(engine_folder, tmp_path / 'kb'))


pytestmark = pytest.mark.usefixtures('no_garbage_collection')


def open_under(folder: pathlib.Path) -> set[str]:
    """What this process has a descriptor of, or has mapped, at or under a folder."""
    mapped = (line.split(maxsplit=5)[5:] for line in open('/proc/self/maps'))
    held = {path.strip() for paths in mapped for path in paths}
    for descriptor in pathlib.Path('/proc/self/fd').iterdir():
        try:
            held.add(os.readlink(descriptor))
        except FileNotFoundError:  # that which listed the folder
            continue
    return {path for path in held if pathlib.Path(path).is_relative_to(folder)}


def used(kb):
    answer, cast = kb.ask(QUESTION), kb.entity('Ada Lovelace').follow('father')
    assert answer.explain() and kb.retrieve(QUESTION, 1) and list(cast)
    assert kb.text_answerer.relations and cast.differentiable() and answer.to_pandas() is not None
    return answer, cast


def test_the_end_of_a_context_lets_go_of_all_files(folder):
    with opql_jax.open(folder) as kb:
        kept = used(kb)
        assert open_under(folder)
    assert kept and not open_under(folder)


def test_what_is_dropped_lets_go_of_all_files_with_its_last_answer_or_set(folder):
    kb = opql_jax.open(folder)
    answer, cast = used(kb)
    del kb
    assert open_under(folder) and answer.explain()
    del answer
    assert open_under(folder) and cast.follow('child').paths('Ada Lovelace') is not None
    del cast
    assert not open_under(folder)


def test_whatever_is_asked_after_closing_says_that_it_was_closed(folder):
    kb = opql_jax.open(folder)
    answer, cast = kb.ask(QUESTION), kb.entity('Ada Lovelace').follow('father')
    kb.close()
    kb.close()
    for ask in (
        lambda: kb.ask(QUESTION),
        lambda: kb.retrieve(QUESTION),
        lambda: kb.entity('Ada Lovelace').follow('father').top(1).explain(),
        lambda: kb.prepared,
        kb.update,
        answer.explain,
        lambda: list(cast),
    ):
        with pytest.raises(InputError, match='was closed: open it again'):
            ask()
