"""The steps that recipes are made of: binaries with gin files, and functions."""

import ast
import dataclasses
import os
import pathlib
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opql_jax.core import preemption
from opql_jax.core.checkout import GIN_ROOT, with_includes
from opql_jax.core.errors import InputError, Preempted
from opql_jax.data.sources.base import MAX_SEED
from opql_jax.recipes import record

# Fewer steps than this train nothing: the learning rate of the first is 0.
MIN_TRAINING_STEPS = 2
# Macros and parameters that name a part of the knowledge base which a command reads.
PARTS = ('TEXT', 'MODEL', 'MEMORY', 'INIT_FROM', 'EXTENDS', 'prepare.prepare.extends')
# Options that some recipes have: which values they may take, and the default, is up to each.
CHOICES = ('system', 'protocol', 'share', 'hops')
# {option: its values, the default first}.
Choices = Mapping[str, tuple[int | str, ...]]


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user chooses when running a recipe; InputError names a number that cannot be.

    `out` receives everything, `data` is the folder of the data sets. The seed is of the initial
    parameters, the order of the batches and what is left out; `world_seed` and `documents` are of a
    generated world; `percent` is of the training steps. `Recipe.complete` gives the rest values,
    but for `asked_for`: the data that a recipe asked for as its steps were built.
    """

    out: pathlib.Path
    data: pathlib.Path
    seed: int = 0
    world_seed: int = 0
    percent: float = 100
    documents: int = 2000
    system: str = ''
    protocol: str = ''
    share: int = -1
    hops: int = 0
    asked_for: list[str] = dataclasses.field(default_factory=list, compare=False)

    def __post_init__(self):
        for name, most in (('seed', MAX_SEED), ('world_seed', MAX_SEED), ('percent', 1e6)):
            if not 0 <= (value := getattr(self, name)) <= most:  # nor a NaN
                raise InputError(f'{name}={value}: give a number of 0 to {most}')

    def file(self, name: str) -> str:
        """The path of a file or folder of the data, there or not; it is noted in `asked_for`."""
        self.asked_for.append(name)
        return str((self.data / name).absolute())


@dataclasses.dataclass(frozen=True)
class Output:
    """A path below the output folder, as a value; the step that puts it there is an input."""

    path: str = ''


# The folder of a recipe is a knowledge base.
KB = {'KB': Output()}


@dataclasses.dataclass(frozen=True)
class Step:
    """One command: a binary, which is run with gin files and bindings."""

    name: str  # unique among the steps that share an output folder
    binary: str  # a module of opql_jax, such as 'train'
    gin: tuple[str, ...]  # files such as 'gin/runs/eval.gin'
    # {macro or parameter: value}; those of `PARTS` and each `Output` tell what the step reads.
    bindings: Mapping[str, object]
    output: str  # the file or folder, below the output folder, that exists once it is complete

    def command(self, out: str) -> list[str]:
        """The command line, after the interpreter."""
        values = {name: placed(value, out) for name, value in self.bindings.items()}
        files = [f'--gin_file={file}' for file in self.gin]
        flags = [f'--gin.{name}={gin_value(value)}' for name, value in values.items()]
        return ['-m', f'opql_jax.{self.binary}', *files, *flags]

    def run(self, out: pathlib.Path, run_json: pathlib.Path) -> None:
        """Runs it; Preempted if asked to stop, SystemExit after Ctrl-C, InputError if it failed."""
        command = [*self.command(str(out)), f'--run_json={run_json}']
        code = preemption.run_binary(command, cwd=record.ROOT)
        if code in (Preempted.CODE, -signal.SIGTERM):
            stopped = f'step {self.name} was asked to stop: the same command goes on from there'
            raise Preempted(stopped)
        if code in (preemption.INTERRUPTED, -signal.SIGINT):
            raise SystemExit(preemption.INTERRUPTED)
        if code:
            raise InputError(f'step {self.name} failed with status {code}')


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of its `bindings` as a step; it returns metrics, and its output appears whole."""

    gin = ()  # it reads no gin file
    name: str
    function: Callable
    bindings: Mapping[str, object]
    output: str

    def command(self, out: str) -> list[str]:
        arguments = ', '.join(f'{name}={value!r}' for name, value in self._arguments(out).items())
        module, name = self.function.__module__, self.function.__name__
        return ['-c', f'from {module} import {name}; {name}({arguments})']

    def run(self, out: pathlib.Path, run_json: pathlib.Path) -> None:
        started = time.monotonic()
        metrics = self.function(**self._arguments(str(out)))
        seconds = time.monotonic() - started
        record.write(run_json, command=self.command(str(out)), seconds=seconds, metrics=metrics)

    def _arguments(self, out: str) -> dict[str, Any]:
        return {name: placed(value, out) for name, value in self.bindings.items()}


def placed(value, out: str):
    """A value of a binding with its paths below the output folder `out`."""
    if isinstance(value, tuple):
        return tuple(placed(one, out) for one in value)
    if isinstance(value, Output):
        return f'{out}/{value.path}' if value.path else out
    return value


def reads_of(step: Step | Function) -> set[pathlib.PurePath]:
    """The paths below the output folder that a step's bindings name, also its own output."""
    parts = {str(value) for name, value in step.bindings.items() if name in PARTS and value}
    outputs = {value.path for value in values_of(step) if isinstance(value, Output)}
    return {pathlib.PurePath(path) for path in parts | outputs}


def values_of(step: Step | Function) -> list:
    """The values of the bindings of a step, and those in tuples."""
    values = step.bindings.values()
    return [one for v in values for one in (v if isinstance(v, tuple) else (v,))]


def inputs_of(step: Step | Function, steps: Sequence[Step | Function]) -> list[str]:
    """The names of the steps before it whose outputs a step reads."""
    reads, before = reads_of(step), steps[: [other.name for other in steps].index(step.name)]
    return [one.name for one in before if any(path.is_relative_to(one.output) for path in reads)]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A kind of training: gin files, and the bindings that come after them."""

    gin: tuple[str, ...]
    bindings: Mapping[str, object] = dataclasses.field(default_factory=dict)


def stage(
    model: str, run: str, steps: int, learning_rate: float, *bindings: Mapping[str, object]
) -> Stage:
    """A size of gin/models with a file of gin/runs."""
    files = (f'gin/models/{model}.gin', f'gin/runs/{run}.gin')
    merged = {name: value for some in bindings for name, value in some.items()}
    return Stage(files, {'STEPS': steps, 'LEARNING_RATE': learning_rate, **merged})


def bound(target: str, /, **settings) -> dict[str, Any]:
    """Bindings of parameters of one target, such as 'objectives.Follow'."""
    return {f'{target}.{name}': value for name, value in settings.items()}


def train(name: str, stage: Stage, options: Options, **bindings) -> Step:
    """A training run of the model `name`; `options.percent` scales its steps."""
    own = {**KB, 'TEXT': 'text', 'MODEL': name, 'SEED': options.seed}
    everything: dict[str, Any] = {**stage.bindings, **own, **bindings}
    if options.percent != 100:
        steps = training_steps(stage.gin, everything) * options.percent / 100
        everything['STEPS'] = max(int(steps), MIN_TRAINING_STEPS)
    return Step(name, 'train', stage.gin, everything, name)


def prepare(text: str, gin: str, **bindings) -> Step:
    """The prepared text `text`."""
    return Step(text, 'prepare', (gin,), {**KB, 'TEXT': text, **bindings}, text)


def build_memory(
    name: str, model: str, text: str = 'text', gin: str = 'gin/runs/build_memory.gin', **bindings
) -> Step:
    """The memory `name` of a text, by the encoder of a model."""
    own = {**KB, 'TEXT': text, 'MODEL': model, 'MEMORY': name}
    return Step(name, 'build_memory', (gin,), own | bindings, name)


def release(model: str, output: str, card: str, **bindings) -> Step:
    """The released folder `output` of a model, with its card."""
    own = {**KB, 'MODEL': model, 'OUTPUT': Output(output), 'CARD': card}
    return Step(output, 'release', ('gin/runs/release.gin',), own | bindings, output)


def evaluate(
    name: str,
    model: str,
    memory: str | None,
    questions: Sequence[str | Output],
    text: str = 'text',
    **bindings,
) -> Step:
    """The answers of a model to question sets, and their metrics, in the folder `name`."""
    parts = {**KB, 'TEXT': text, 'MODEL': model, 'MEMORY': memory}
    asked = {'QUESTIONS': tuple(questions), 'OUTPUT_DIR': Output(name)}
    return Step(name, 'eval', ('gin/runs/eval.gin',), {**parts, **asked, **bindings}, name)


def numbers(gin: str) -> dict[str, Any]:
    """The whole numbers that a gin file, with what it includes, gives macros or settings."""
    found = re.findall(r'^ *(\w+) = (\d+)\b(?![.e])', with_includes(GIN_ROOT / gin), re.M)
    return {name: int(number) for name, number in found}


def training_steps(gin: Sequence[str], bindings: Mapping[str, Any]) -> int:
    """The steps of training that bindings state, or else the last of these gin files."""
    return bindings.get('STEPS') or numbers(gin[-1])['STEPS']


def gin_value(value) -> str:
    """A value as it follows `--gin.NAME=`: strings are quoted only if they must be."""
    if not isinstance(value, str):
        return repr(value)
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value if value else "''"
    return repr(value)


def data_of(step) -> list[str]:
    """The data that a step names: absolute paths, as those of `Options.file`."""
    return [value for value in values_of(step) if isinstance(value, str) and os.path.isabs(value)]
