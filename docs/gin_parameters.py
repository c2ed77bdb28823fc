"""Writes the reference page of gin parameters from signatures and docstrings."""

import functools
import importlib
import inspect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The sections, by the package that a configurable lies in.
SECTIONS = {
    'opql_jax.training.objectives': 'Objectives',
    'opql_jax.datasets': 'Readers of data sets',
    'opql_jax.models': 'Encoders',
    'opql_jax': 'Binaries, and what they take',
}
# Set by a flag, or by flax.
NOT_SET = {'dry_run', 'parent', 'name'}


def configurables(gin: pathlib.Path) -> dict[str, type]:
    """What files below `gin` configure, by its names there, such as 'trainer.train'."""
    found = {}
    for file in sorted(gin.rglob('*.gin')):
        text = file.read_text(encoding='utf-8')
        for package, module in re.findall(r'^from (opql_jax\S*) import (\w+)$', text, re.M):
            for name in re.findall(rf'(?:^|@){module}\.(\w+)', text, re.M):
                found[f'{module}.{name}'] = getattr(
                    importlib.import_module(f'{package}.{module}'), name
                )
    return found


def descriptions(configurable) -> dict[str, str]:
    """What docstrings say of each parameter.

    Its own, those of base classes, and of what they refer to as 'see `NAME`'.
    """
    found: dict[str, str] = {}
    sources = (
        [*inspect.getmro(configurable), configurable.__init__]
        if inspect.isclass(configurable)
        else [configurable]
    )
    for source in sources:
        section = re.search(
            r'^(?:Args|Attributes):\n((?: .*\n?|\n)*)', inspect.cleandoc(source.__doc__ or ''), re.M
        )
        for names, text in re.findall(
            r'^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)', section[1] if section else '', re.M
        ):
            for name in names.split(', '):
                if name not in found:
                    found[name] = elsewhere(name, text, source) or ' '.join(text.split())
    return found


def elsewhere(name: str, text: str, source) -> str | None:
    """The description of a parameter whose own, in the docstring of `source`, is 'see `NAME`'."""
    referred = re.fullmatch(r'see `([\w.]+)`\.', text)
    if (
        not referred
        or (named := getattr(sys.modules[source.__module__], referred[1].split('.')[0], None))
        is None
    ):
        return None
    return descriptions(functools.reduce(getattr, referred[1].split('.')[1:], named)).get(name)


def table(name: str, configurable) -> str:
    """The heading, purpose and table of parameters of a configurable.

    Raises:
        ValueError: a parameter has no description.
    """
    lines = [
        f'``{name}``',
        '~' * (len(name) + 4),
        '',
        inspect.cleandoc(configurable.__doc__).split('\n\n')[0],
        '',
    ]
    lines += [
        '.. list-table::',
        '   :header-rows: 1',
        '',
        '   * - parameter',
        '     - type',
        '     - default',
        '     - meaning',
    ]
    described = descriptions(configurable)
    for parameter in inspect.signature(configurable).parameters.values():
        if parameter.name in NOT_SET:
            continue
        if parameter.name not in described:
            raise ValueError(f'{name}: its docstring does not describe {parameter.name}')
        # Without modules.
        kind = re.sub(r'\b[a-z_]\w*\.', '', inspect.formatannotation(parameter.annotation))
        # The address of a function says nothing.
        value = getattr(parameter.default, '__name__', repr(parameter.default))
        default = 'required' if parameter.default is parameter.empty else f'``{value}``'
        lines += [
            f'   * - ``{parameter.name}``',
            f'     - ``{kind}``',
            f'     - {default}',
            f'     - {described[parameter.name]}',
        ]
    return '\n'.join(lines) + '\n'


def page() -> str:
    """The page, as reStructuredText."""
    parts = [
        'Gin parameters\n==============\n',
        (
            'What ``--gin.NAME.PARAMETER=VALUE`` and files of ``gin/`` can set, beside the macros '
            'that ``--help`` of each binary lists.\n'
        ),
    ]
    grouped: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    for name, configurable in sorted(configurables(ROOT / 'gin').items()):
        package = next(
            package for package in SECTIONS if configurable.__module__.startswith(package)
        )
        grouped[SECTIONS[package]].append(table(name, configurable))
    for title, tables in grouped.items():
        parts += [f'{title}\n{"-" * len(title)}\n', *tables]
    return '\n'.join(parts)
