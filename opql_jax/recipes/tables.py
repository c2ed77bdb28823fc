"""The tables of README.md, RESULTS.md and the experiments' notes, from results/.

`results/<group>.json` has the published runs of a group by row and seed. A table stands between two
comments, `<!-- table: GROUP -->` and `<!-- end of table -->`. No figure is typed by hand.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from opql_jax.core.checkout import GIN_ROOT
from opql_jax.core.errors import InputError
from opql_jax.core.files import write_bytes
from opql_jax.recipes import catalog, record
from opql_jax.recipes.recipe import Recipe, inputs_made_again, other_command, run_json_of
from opql_jax.recipes.step import CHOICES, Function, Options, Step

RESULTS = record.ROOT / 'results'
NOTES = ('metaqa', 'new_relations', 'language_models')
FILES = ('README.md', 'RESULTS.md', *(f'docs/experiments/{name}.md' for name in NOTES))
_BLOCK = re.compile(r'(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)', re.S)


# Of a question set, or of a ranking of documents; there are others, which no table shows.
_Metrics = TypedDict(
    '_Metrics',
    {
        'hits@1': float,
        'coverage': float | None,
        'recall@2': float,
        'recall@5': float,
        'answer@5': float,
    },
    total=False,
)
# The group whose runs rank documents.
_RANKINGS = re.compile(r'retrieval(-[\d.]+-percent)?')


class Published(TypedDict):
    """A published run; `seconds` are all steps' wall time, if known.

    Metrics are by question set or ranking; or the accuracy and its standard error.
    """

    command: str
    commit: str
    percent: float
    seed: int
    seconds: float | None
    metrics: dict[str, _Metrics | float]


def read_rows(group: str, folder: pathlib.Path) -> dict[str, list[Published]]:
    """The published runs of a group, {row: those of its seeds}; InputError if it has none."""
    path = folder / f'{group}.json'
    if not path.exists():
        raise InputError(f'{path} does not exist: publish a run of {group}')
    rows = record.read_json(path, dict[str, dict[str, Published]], 'publish the run again')
    return {row: list(by_seed.values()) for row, by_seed in rows.items()}


def cell(seeds: Sequence[Published], name: str) -> str:
    """Hits@1 of a question set, its standard error over seeds, and its share of the achievable."""
    found = [scores for fields in seeds if isinstance(scores := fields['metrics'].get(name), dict)]
    if not found:
        return '–'
    hits = [scores['hits@1'] for scores in found]
    text = f'{np.mean(hits):.3f}'
    if len(hits) > 1:
        text += f' ± {np.std(hits, ddof=1) / len(hits) ** 0.5:.3f}'
    # Other seeds may ask other questions.
    shares = [scores.get('coverage') for scores in found]
    coverage = np.mean([1.0 if share is None else share for share in shares])
    return text if coverage in (0.0, 1.0) else f'{text} ({100 * np.mean(hits) / coverage:.0f}%)'


def table(group: str, folder: pathlib.Path = RESULTS) -> str:
    """A Markdown table of a group, with a line for each row."""
    lines = _rankings(group, folder) if _RANKINGS.fullmatch(group) else _scores(group, folder)
    header, *rows = ('| ' + ' | '.join(cells) + ' |\n' for cells in lines)
    return header + '|' + '---|' * len(lines[0]) + '\n' + ''.join(rows)


def _scores(group: str, folder: pathlib.Path) -> list[list[str]]:
    """The header and the lines of a group whose runs answer questions or tell relations apart."""
    rows = read_rows(group, folder)
    runs = [fields for seeds in rows.values() for fields in seeds]
    if all({'accuracy', 'standard_error'} <= fields['metrics'].keys() for fields in runs):
        accuracy = lambda of: f'{of["accuracy"]:.3f} ± {of["standard_error"]:.3f}'
        found = [[row, accuracy(f['metrics']), f['commit']] for row, (f, *_) in rows.items()]
        return [['', '5-way 1-shot accuracy', 'commit'], *found]
    # Of the official questions most are about films without text; their figures are in results/.
    sets = sorted({name for fields in runs for name in fields['metrics'] if 'official' not in name})
    lines = [['', *sets, 'seeds', 'commit']]
    for name, seeds in rows.items():
        commits = ', '.join(dict.fromkeys(fields['commit'] for fields in seeds))
        lines.append([name, *(cell(seeds, s) for s in sets), str(len(seeds)), commits])
    return lines


def _rankings(group: str, folder: pathlib.Path) -> list[list[str]]:
    """The header and lines of a group whose runs rank documents: a column a run, the best last."""
    runs = {row: run for row, (run, *_) in read_rows(group, folder).items()}
    found: dict[str, dict[str, _Metrics]] = {}
    for row, run in runs.items():
        for ranking, scores in run['metrics'].items():
            if isinstance(scores, dict):
                found.setdefault(ranking, {})[row] = scores
    shown = lambda scores: (
        f'{scores["recall@2"]:.3f} / {scores["recall@5"]:.3f} / {scores["answer@5"]:.3f}'
        if scores
        else '–'
    )
    recall = lambda ranking: np.mean([scores['recall@5'] for scores in found[ranking].values()])
    lines = [
        [ranking, *(shown(found[ranking].get(row)) for row in runs)]
        for ranking in sorted(found, key=recall)
    ]
    return [['', *runs], *lines, ['commit', *(run['commit'] for run in runs.values())]]


def with_tables(text: str, folder: pathlib.Path = RESULTS) -> str:
    """A Markdown text whose tables are those of the published runs."""
    return _BLOCK.sub(lambda block: block[1] + table(block[2], folder) + block[3], text)


def write_tables(root: pathlib.Path = record.ROOT) -> None:
    """Writes the tables of `FILES` anew."""
    for name in FILES:
        text = (root / name).read_text(encoding='utf-8')
        write_bytes(root / name, with_tables(text, root / 'results').encode())


def publish(recipe: Recipe, options: Options, folder: pathlib.Path = RESULTS) -> pathlib.Path:
    """Copies a finished recipe's results to `folder`; InputError: a step is not done or differs."""
    out, seconds, configurations, metrics = options.out.absolute(), 0.0, {}, {}
    steps = catalog.build(recipe, options)
    for step in steps:
        path, named = run_json_of(step, out), f'{recipe.name}: step {step.name}'
        if not path.exists():
            raise InputError(f'{named} is not done in {out}: run the recipe first')
        last = record.read(path)
        if other := other_command(last, step, out):
            raise InputError(f'{named} was {other}: give publish the options that run had')
        if names := inputs_made_again(step, steps, out):
            again = f'step {" and ".join(names)} was run again: run it again, too'
            raise InputError(f'{named} was run before {again}')
        seconds += last['seconds']
        if step.name.startswith('results'):
            metrics[step.name.rpartition('/')[2]] = last['metrics']
        if last['gin']:
            configurations[step.name] = (
                last['gin']
                .replace(str(out), 'OUT')
                .replace(str(options.data.absolute()), 'DATA')
                .replace(f'{GIN_ROOT}/', '')
            )
    if len(metrics) == 1:
        (metrics,) = metrics.values()
    else:  # of a system that was asked over several memories
        metrics = {
            f'{memory}/{name}': values
            for memory, found in metrics.items()
            for name, values in found.items()
        }
    group, row = recipe.group, _row(recipe, steps)
    group += '' if options.percent == 100 else f'-{options.percent:g}-percent'
    choices = ''.join(
        f' --{name.replace("_", "-")} {getattr(options, name)}'
        for name in ('world_seed', 'documents', *CHOICES)
        if getattr(options, name) != getattr(Options, name)
    )
    fields = {
        'command': (
            f'python -m opql_jax.recipes run {recipe.name} --seed {options.seed} --percent '
            f'{options.percent:g}{choices}'
        ),
        'percent': options.percent,
        'seed': options.seed,
        'seconds': round(seconds, 1),
        'gin': configurations,
        'metrics': metrics,
        **{name: last[name] for name in ('commit', 'versions', 'device')},
    }
    target = folder / f'{group}.json'
    rows = record.read_json(target, dict[str, dict], 'remove it') if target.exists() else {}
    rows.setdefault(row, {})[str(options.seed)] = fields
    record.write_json(target, rows)
    return target


def _row(recipe: Recipe, steps: Sequence[Step | Function]) -> str:
    """The row of a run: its folder of results, or else the last part of the recipe's name."""
    results = next(
        (step.name for step in steps if step.name.startswith('results/')),
        f'/{recipe.name.split("/")[-1]}',
    )
    return results.partition('/')[2].partition('/')[0]
