"""How long a person waits for `opql`: its help, and an answer by a process that has nothing in memory.

python benchmarks/cold_start.py --kb films.kb --question "Who directed Inception?" --json

Calls of all commands alternate. `seconds` are of the clock, `cpu_seconds` of all cores, which other programs disturb less. The first `ask` compiles,
with an empty cache of compiled programs; `ask` finds them there. Without `--kb` the sample articles of the package are indexed before.
"""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from command_line import make_parser, show

SAMPLE = pathlib.Path(__file__).parents[1] / 'opql_jax' / 'sample' / 'articles'


def run(arguments: list[str], cache: str) -> tuple[float, float]:
    """Seconds of the clock, and of all cores, that a Python command takes."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {'OPQL_CACHE': cache}
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    """Prints a line for each command."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', help='a knowledge base of plain text')
    parser.add_argument('--question', default='Who designed the Marlowe Bridge?')
    parser.add_argument('--calls', type=int, default=5)
    options = parser.parse_args()
    opql = ['-m', 'opql_jax.cli']
    with tempfile.TemporaryDirectory() as temporary:
        kb = options.kb or os.path.join(temporary, 'kb')
        if not options.kb:
            run([*opql, 'index', str(SAMPLE), '--out', kb], temporary)
        ask, cache = [*opql, 'ask', kb, options.question], os.path.join(temporary, 'cache')
        commands = {
            'pass': ['-c', 'pass'],
            'import jax': ['-c', 'import jax'],
            'opql --help': [*opql, '--help'],
            'opql ask': ask,
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        times['first opql ask'] = [run(ask, cache)]
        for _ in range(options.calls):
            for name, arguments in commands.items():
                times[name].append(run(arguments, cache))
    medians = {name: [statistics.median(kind) for kind in zip(*found)] for name, found in times.items()}
    for name, (seconds, cpu_seconds) in medians.items():
        line = {'command': name, 'seconds': seconds, 'cpu_seconds': cpu_seconds}
        line |= {f'over_{other}': seconds / medians[other][0] for other in ('pass', 'import jax')}
        show({key.replace(' ', '_'): value for key, value in line.items()}, options.json)


if __name__ == '__main__':
    main()
