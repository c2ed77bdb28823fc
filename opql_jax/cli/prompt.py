"""Questions one after the other: typed at a prompt of `opql ask KB`, or read from a pipe."""

from __future__ import annotations

import _thread
import bisect
import concurrent.futures
import contextlib
import os
import pathlib
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from opql_jax.cli.display import print_answer, print_json, print_lines
from opql_jax.core import preemption
from opql_jax.core.errors import InputError, error_message
from opql_jax.core.terminal import one_line
from opql_jax.kb.current import Current
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.kb.weighted_entities import WeightedEntities

HELP = """\
  QUESTION   in plain words, where a topic may be put in [square brackets], or a query: "Ingrid Solberg . directed"
  :why N     how the N-th answer was found: its paths, with their sentences
  :quit      ends, as Ctrl-D does; Ctrl-C clears the line or stops an answer; the Tab key completes names"""  # noqa: E501
T = TypeVar('T')
# Maximum number of names that the Tab key offers.
_OFFERED = 50
# Where a name may begin.
_BEGINNING = re.compile(r'(?<=\[)|\b(?=[A-Z])')


def answer_lines(
    kb: VirtualKB, lines: Iterable[str], top: int, as_json: bool, hops: int = 1
) -> None:
    """Answers each line that is not blank; prints what is wrong with one that has no answer."""
    for text in filter(None, map(str.strip, lines)):
        if not as_json:
            print(text)
        try:
            print_answer(kb, text, top, as_json, hops)
        except InputError as error:
            if as_json:
                print_json({'question': text, 'error': str(error)})
            else:
                print_lines(f'  {error_message(error)}')


def run_prompt(folder: str, top: int, hops: int = 1, **options: Any) -> None:
    """Reads questions and commands from the terminal; Ctrl-C clears the line or stops an answer."""
    prompt = Prompt(folder, top, hops, **options)
    keep = _edit_lines(prompt)
    entities, passages = len(prompt.kb.vocab), len(prompt.kb.prepared.passages)
    print(f'{entities:,} entities, {passages:,} passages. Ask, or :help')
    preemption.raise_on_interrupt()
    while True:
        try:
            line = input('? ').strip()
            if line in (':quit', ':q'):
                break
            if line:
                keep()
                prompt.run(line)
        except EOFError:  # Ctrl-D
            print()
            break
        except KeyboardInterrupt:
            print()
    prompt.leave()


class Prompt:
    """What a line typed at the prompt does.

    Attributes:
        kb: the version that answers; each line takes the newest.
    """

    def __init__(self, folder: str, top: int, hops: int = 1, **options: Any):
        """Takes a folder, the number of answers printed, their hops, and options of `open_kb`."""
        self._current, self._top, self._hops = Current(folder, **options), top, hops
        self.kb = self._current.kb()
        self._answers: WeightedEntities | None = None
        self._folded: list[tuple[str, str]] | None = None
        self._calls: list[concurrent.futures.Future] = []  # that go on

    def run(self, line: str) -> None:
        """Answers a question or obeys a command, and prints the result or what is wrong."""
        try:
            if (newest := self._in_thread(self._current.kb)) is not self.kb:  # it was changed
                self.kb, self._answers, self._folded = newest, None, None
                print_lines('  (the knowledge base has changed: the new version answers)')
            word, _, rest = line.partition(' ')
            if not word.startswith(':'):
                self._answers = None  # if this is refused, there is nothing to explain
                found = self._in_thread(self.kb.find, line, self._hops)
                print_lines(self._in_thread(found.to_text, self._top))
                self._answers = found
            elif word == ':why':
                print_lines(self._explained(rest))
            else:
                print(HELP)
        except (InputError, OSError) as error:
            print_lines(f'  {error_message(error)}')

    def completions(self, line: str) -> list[str]:
        """The completions of the name that ends this line, but for those that no line can show."""
        if self._folded is None:
            names = (name for name in self.kb.vocab.names if one_line(name) == name)
            self._folded = sorted((name.casefold(), name) for name in names)
        for start in (found.start() for found in _BEGINNING.finditer(line)):
            begun = line[start:].casefold()
            first = bisect.bisect_left(self._folded, (begun,))
            near = self._folded[first : first + _OFFERED]
            if begun and (names := [name for folded, name in near if folded.startswith(begun)]):
                return [line[:start] + name for name in names]
        return []

    def _explained(self, number: str) -> str:
        """The paths of an answer, by its place from 1."""
        if self._answers is None:
            raise InputError('ask a question first')
        entities = self._answers.entities[: self._top]
        if not re.fullmatch(r'\d{1,6}', number.strip()) or not 1 <= int(number) <= len(entities):
            asked = f'which answer? give a number from 1 to {len(entities)}'
            raise InputError(asked if len(entities) else 'there was no answer')
        return self._in_thread(self._answers.explain, int(entities[int(number) - 1]))

    def _in_thread(self, function: Callable[..., T], *arguments) -> T:
        """The result of a call in another thread: Ctrl-C ends the wait alone, as JAX may break."""
        result: concurrent.futures.Future[T] = concurrent.futures.Future()
        ended = threading.Lock()
        ended.acquire()

        def call() -> None:
            self._calls.append(result)
            try:
                result.set_result(function(*arguments))
            except BaseException as error:  # any: without a result the wait for one would never end
                result.set_exception(error)
            finally:
                self._calls.remove(result)
                ended.release()

        # A lock alone is waited for, not `Thread.start` or an unfinished `Future.result`: Ctrl-C
        # inside of their conditions raises a RuntimeError now and then. Not for ever, as Python
        # misses a Ctrl-C that comes just before a wait begins.
        _thread.start_new_thread(call, ())
        while not ended.acquire(timeout=0.5):
            pass
        return result.result()

    def leave(self) -> None:
        """Ends the process if an abandoned call goes on: Python cannot end beside JAX's thread."""
        if self._calls:
            sys.stdout.flush()
            os._exit(0)


def _edit_lines(prompt: Prompt):
    """Makes `input` complete names and remember lines; returns what stores the newest line."""
    try:
        import readline
    except ImportError:  # Python without it, as on Windows
        return lambda: None
    state = os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state')
    history = pathlib.Path(state, 'opql', 'history')
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(mode=0o600)
        readline.read_history_file(history)
    except OSError:
        # A home that cannot be written to: lines are remembered in this run only.
        return lambda: None
    offered: Sequence[str] = ()

    def complete(line: str, number: int) -> str | None:
        nonlocal offered
        if number == 0:
            offered = prompt.completions(line)
        return offered[number] if number < len(offered) else None

    readline.set_completer_delims('')  # a name has blanks
    readline.set_completer(complete)
    readline.parse_and_bind('tab: complete')
    readline.set_history_length(1000)

    def keep() -> None:
        with contextlib.suppress(OSError):  # a full disk
            readline.append_history_file(1, history)

    return keep
