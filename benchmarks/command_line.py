"""The command line of the benchmarks: common options, and the lines that they print."""

import argparse
import json


def make_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the option --json, whose help shows a module's docstring as it is written."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--json', action='store_true', help='print each result as JSON on one line')
    return parser


def add_timing(parser: argparse.ArgumentParser, calls: int = 7) -> None:
    """Adds --calls and --limit, the last two arguments of `timing.medians`."""
    parser.add_argument(
        '--calls', type=int, default=calls, help='timed calls of each function, at most'
    )
    parser.add_argument(
        '--limit',
        type=float,
        default=120,
        help='seconds after which no further round of calls begins',
    )


def add_search(parser: argparse.ArgumentParser) -> None:
    """Adds --rows and --dim of a memory, and --queries and --k of the searches of it."""
    parser.add_argument('--rows', type=int, default=1_600_000)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--queries', type=integers, default='1,64,1024')
    parser.add_argument('--k', type=int, default=32)


def integers(text: str) -> list[int]:
    """The type of an option such as '1,64,1024'."""
    return [int(number) for number in text.split(',') if number]


def show(line: dict, as_json: bool) -> None:
    """Prints one result."""
    print(json.dumps(line) if as_json else json.dumps(line, indent=1), flush=True)
