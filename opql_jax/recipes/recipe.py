"""A recipe is an experiment as a list of named steps, and is run like `make`.

Each step is one command with one output, skipped if that exists and `run.json` is of the same
command, gin files, data and inputs. One that was interrupted is run again, and the binaries resume
by themselves; one that changed since, or whose inputs were made again, is refused. Rows of a table
that share their folder share their steps.

    <out>/steps/<name>/data.json: the hashes of the data that the command names, if any
    <out>/steps/<name>/inputs.json: the runs of the steps whose outputs it read, as hashes
    <out>/steps/<name>/run.json: command, gin, commit, versions, device, seconds, metrics
    <out>/...: the outputs of the steps
"""

import dataclasses
import logging
import os
import pathlib
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opql_jax.core import locks
from opql_jax.core.errors import InputError
from opql_jax.core.files import sha256
from opql_jax.recipes import record
from opql_jax.recipes.cost import Machine
from opql_jax.recipes.step import CHOICES, Choices, Function, Options, Step, data_of, inputs_of

_log = logging.getLogger(__name__)


def states_of(steps: Sequence[Step | Function], out: pathlib.Path) -> dict[str, str]:
    """{step: `state_of` it}; a step that is done before one of its inputs was run before that."""
    states: dict[str, str] = {}
    for step in steps:
        states[step.name] = state_of(step, steps, out)
        not_yet = [name for name in inputs_of(step, steps) if states[name] != 'done']
        if states[step.name] == 'done' and not_yet:
            states[step.name] = _run_before(_steps(not_yet))
    return states


def _steps(names: Sequence[str]) -> list[str]:
    return [f'step {name}' for name in names]


def _run_before(changed: Sequence[str]) -> str:
    return f'run before {" and ".join(changed)} changed'


def state_of(step, steps: Sequence[Step | Function], out: pathlib.Path) -> str:
    """'done', 'to do', or how its command, gin files, data or inputs differ from those it had."""
    run_json, data = run_json_of(step, out), data_of(step)
    data_json = run_json.with_name('data.json')
    again = _steps(inputs_made_again(step, steps, out))
    records = [run_json, data_json] if data else [run_json]
    if not all(path.exists() for path in [*records, out / step.output]):
        # What was interrupted would go on from the input that it began with.
        return _run_before(again) if again and (out / step.output).exists() else 'to do'
    fields = record.read(run_json)
    if other := other_command(fields, step, out):
        return other
    changed = _differing(fields['gin_files'], record.gin_digests(step.gin, record.ROOT))
    if data:
        changed += _differing(
            record.read_json(data_json, dict[str, str]), record.data_digests(data)
        )
    changed += again
    return _run_before(changed) if changed else 'done'


def other_command(fields: Mapping, step, out: pathlib.Path) -> str:
    """How the command of a step's record differs from its present one; '' if not at all."""
    before, now = fields['command'], step.command(str(out))
    if before == now:
        return ''
    gone = [argument for argument in before if argument not in now]
    new = [f'now {argument}' for argument in now if argument not in before]
    return f'run with {", ".join(gone + new)}'


def run_json_of(step, out: pathlib.Path) -> pathlib.Path:
    """The record of a step; beside it are hashes of its data and the runs of its inputs."""
    return out / 'steps' / step.name / 'run.json'


def inputs_made_again(step, steps: Sequence[Step | Function], out: pathlib.Path) -> list[str]:
    """A step's inputs that were run again since, or are to be; none if it did not run."""
    inputs_json = run_json_of(step, out).with_name('inputs.json')
    if not inputs_json.exists():
        return []
    before = record.read_json(
        inputs_json, dict[str, str], f'remove {inputs_json.parent} to run the step again'
    )
    return _differing(before, _runs_of_inputs(step, steps, out))


def _runs_of_inputs(step, steps: Sequence[Step | Function], out: pathlib.Path) -> dict[str, str]:
    """{input: the hashes of its record, and of what it read; '' where it has no record}."""
    runs = {}
    for name in inputs_of(step, steps):
        files = [out / 'steps' / name / f'{of}.json' for of in ('run', 'data', 'inputs')]
        there = filter(os.path.exists, files)
        runs[name] = ' '.join(map(sha256, there)) if files[0].exists() else ''
    return runs


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def run(steps: Sequence[Step | Function], options: Options, dry_run: bool = False) -> None:
    """Runs what is not done; Preempted if stopped, InputError if a step failed, changed or runs."""
    out = options.out.absolute()
    states = states_of(steps, out)
    changed = {name: state for name, state in states.items() if state not in ('done', 'to do')}
    if changed:
        first = next(iter(changed))
        remove = [
            path
            for step in steps
            if step.name in changed
            for path in (run_json_of(step, out).parent, out / step.output)
        ]
        raise InputError(
            f'{out}: step {first} was {changed[first]}: give another --out, or remove '
            f'{" and ".join(map(str, remove))} to run it again'
        )
    for number, step in enumerate(steps, 1):
        title = f'step {number} of {len(steps)}, {step.name}'
        if dry_run:
            command = shlex.join(['python', *step.command(str(out))])
            print(f'# {step.name}: {states[step.name]}\n{command}')
        elif states[step.name] == 'done':
            _log.info('%s: done before', title)
        else:
            started = time.monotonic()
            _log.info('%s', title)
            # Recipes with steps in common may run at the same time, but none of these steps twice.
            run_json = run_json_of(step, out)
            with locks.writer(run_json.parent):
                if state_of(step, steps, out) != 'done':
                    record.write_json(
                        run_json.with_name('inputs.json'), _runs_of_inputs(step, steps, out)
                    )
                    if data := data_of(step):
                        # Before it reads them.
                        record.write_json(
                            run_json.with_name('data.json'), record.data_digests(data)
                        )
                    step.run(out, run_json)
            _log.info('%s: done in %.0f s', title, time.monotonic() - started)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A named experiment."""

    name: str  # such as 'metaqa/opql'; recipes of a group, metaqa, share a folder below runs/
    summary: str  # what it shows, in one line
    # Gives the steps, for options in which all choices are made.
    build: Callable[[Options], Sequence[Step | Function]]
    choices: Choices = dataclasses.field(default_factory=dict)
    # Lines on the machines that the steps take, of those that may be rented; none where any do.
    needs: Callable[[Sequence[Step | Function], Mapping[str, Machine]], list[str]] = lambda *_: []

    @property
    def group(self) -> str:
        return self.name.partition('/')[0]

    @property
    def flags(self) -> str:
        """The options that it has, with their values."""
        listed = {name: ', '.join(map(str, values)) for name, values in self.choices.items()}
        return '; '.join(f'--{name} {values}' for name, values in listed.items())

    def complete(self, options: Options) -> Options:
        """Options with defaults for what was not chosen; InputError: the recipe lacks what was."""
        defaults: dict[str, Any] = {}
        for name in CHOICES:
            chosen, values = getattr(options, name), self.choices.get(name)
            is_given = chosen != getattr(Options, name)
            if values is None and is_given:
                has = f'its options are {self.flags}' if self.choices else 'it has no such options'
                raise InputError(f'{self.name} has no --{name}: {has}')
            if values and not is_given:
                defaults[name] = values[0]
            elif values and chosen not in values:
                known = ', '.join(map(str, values))
                raise InputError(f'{self.name} has no --{name} {chosen}: give one of {known}')
        return dataclasses.replace(options, **defaults)

    def steps(self, options: Options) -> Sequence[Step | Function]:
        """The steps for these options; InputError as of `complete`, or if data are missing."""
        options.asked_for.clear()
        return self.build(self.complete(options))
