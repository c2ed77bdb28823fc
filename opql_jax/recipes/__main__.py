"""The experiments of this project.

`python -m opql_jax.recipes list | show NAME | run NAME | publish NAME | tables`.

    list              the names of all recipes, with a line on each
    show NAME         the steps of a recipe with their inputs, outputs and state
    run NAME...       runs what is not done, of recipes or of all of a group; `--dry-run` (or
                      `--show-gin`) prints the commands and what they need, whether the data are
                      there or not
"""

import argparse
import contextlib
import logging
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from opql_jax.core import preemption, terminal
from opql_jax.core.errors import InputError, Preempted, error_message
from opql_jax.recipes import catalog, cost, record, tables
from opql_jax.recipes.recipe import Recipe, run, states_of
from opql_jax.recipes.step import Options, inputs_of

# {option: how it is read, and its help}; `Options` has the defaults.
_OPTIONS: dict[str, tuple[Callable[[str], float | str], str]] = {
    'seed': (int, 'of the parameters, the order of the batches and what is left out'),
    'world_seed': (int, 'of a generated world'),
    'percent': (float, 'of the training steps: less for a quick look'),
    'documents': (int, 'size of a generated world'),
    'system': (
        str,
        'the model or the baseline, of recipes that have several; `list` names the values',
    ),
    'protocol': (str, 'what the new relations are new to, see `following`'),
    'share': (int, 'percentage of the relations that are new'),
    'hops': (int, 'of the questions'),
}


def options_of(recipe: Recipe, arguments: argparse.Namespace) -> Options:
    """The options of a recipe from the command line."""
    out = pathlib.Path(arguments.out or record.ROOT / 'runs' / recipe.group)
    data = pathlib.Path(arguments.data or record.ROOT.parent / 'shared' / 'data')
    given: dict[str, Any] = {name: getattr(arguments, name) for name in _OPTIONS}
    return Options(out, data, **{name: it for name, it in given.items() if it is not None})


def list_recipes(_) -> None:
    """Prints the names and summaries of all recipes, with their options."""
    for recipe in catalog.RECIPES.values():
        flags = f' ({recipe.flags})' if recipe.choices else ''
        print(f'{recipe.name:28} {recipe.summary}{flags}')


def show(arguments) -> None:
    """Prints the steps of a recipe, their inputs and outputs, and what is done."""
    recipe = catalog.find(arguments.name)
    options = options_of(recipe, arguments)
    steps = catalog.build(recipe, options)
    states = states_of(steps, options.out.absolute())
    print(f'{recipe.name}: {recipe.summary}\nout: {options.out}')
    for step in steps:
        inputs = ', '.join(inputs_of(step, steps)) or '-'
        print(f'  {step.name:28} {inputs} -> {step.output}  [{states[step.name]}]')


def run_recipes(arguments) -> None:
    """Runs recipes, one after the other."""
    chosen = [recipe for name in arguments.names for recipe in catalog.find_all(name)]
    build = Recipe.steps if arguments.dry_run else catalog.build
    plans = [(recipe, options_of(recipe, arguments)) for recipe in chosen]
    machines = cost.with_prices(arguments.price)
    if arguments.price and not arguments.dry_run:
        raise InputError('--price: only a dry run tells dollars: give --dry-run, too')
    for recipe, options, steps in [(*plan, build(*plan)) for plan in plans]:
        run(steps, options, dry_run=arguments.dry_run)
        if arguments.dry_run:
            print(catalog.needs(recipe, options, steps, machines))
        else:
            print(f'{recipe.name} is done: {options.out}/{steps[-1].output}')


def publish_recipes(arguments) -> None:
    """Copies what finished recipes found into results/."""
    for recipe in (recipe for name in arguments.names for recipe in catalog.find_all(name)):
        print(tables.publish(recipe, options_of(recipe, arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(
        prog='python -m opql_jax.recipes', description='The experiments of this project.'
    )
    commands = out.add_subparsers(required=True)
    commands.add_parser('list', help='names all recipes').set_defaults(command=list_recipes)
    shown = commands.add_parser('show', help='the steps of a recipe')
    shown.add_argument('name')
    ran = commands.add_parser('run', help='runs what is not done')
    ran.add_argument('names', nargs='+', metavar='NAME')
    ran.add_argument(
        '--dry-run',
        '--show-gin',
        action='store_true',
        help='print the binaries with their gin files, run nothing',
    )
    ran.add_argument(
        '--price',
        action='append',
        default=[],
        metavar='MACHINE=DOLLARS',
        help='with --dry-run: dollars per device-hour, instead of the list price',
    )
    published = commands.add_parser(
        'publish', help='copies what finished recipes found into results/'
    )
    published.add_argument('names', nargs='+', metavar='NAME')
    written = commands.add_parser(
        'tables', help='writes the tables of README.md, RESULTS.md and the notes'
    )
    written.set_defaults(command=lambda _: tables.write_tables())
    for command, function in ((shown, show), (ran, run_recipes), (published, publish_recipes)):
        command.set_defaults(command=function)
        command.add_argument(
            '--out',
            help='folder that receives everything (default: runs/ and the group of the recipe)',
        )
        command.add_argument('--data', help='folder of the data sets (default: ../shared/data)')
        for name, (read, told) in _OPTIONS.items():
            command.add_argument(f'--{name.replace("_", "-")}', type=read, help=told)
    return out


def main(argv: list[str] | None = None) -> None:
    """Runs a command."""
    arguments = parser().parse_args(argv)
    with terminal.escaped_output():
        logging.basicConfig(handlers=[terminal.log_handler()])
        logging.getLogger('opql_jax').setLevel(logging.INFO)
        try:
            arguments.command(arguments)
        except Preempted as stopped:
            with contextlib.suppress(OSError):  # a terminal that is gone
                print(stopped.message, file=sys.stderr)
            raise
        except (InputError, OSError, MemoryError) as error:
            sys.exit(f'error: {error_message(error)}')


if __name__ == '__main__':
    preemption.exit_on_signals()
    main()
