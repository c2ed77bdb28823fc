"""Multi-hop slot filling (MSF), asked over the memory of its test paragraphs.

As in the paper an entry is a page's title and what a paragraph of it mentions, and the queries of
two and of three hops have a memory each. With a share of new relations it tells what these cost,
see `following`. The settings are those of MetaQA: nothing was tuned on this data, which is not at
hand.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from opql_jax.corpus.questions import RELATION_SEPARATOR
from opql_jax.datasets.msf import Msf, queries
from opql_jax.datasets.slot_filling import random_share
from opql_jax.recipes import metaqa, slot_filling
from opql_jax.recipes.following import ALL_SEEN, PROTOCOLS, Novelty, System
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Choices, Options, Stage, Step, build_memory, prepare, train


class Start(NamedTuple):
    """What the systems of this data set begin with.

    `pretraining` gives the steps of a relation encoder over the text of that name, which end with
    its model. Names of steps end with `suffix` where others share the folder. `text` are its
    bindings.
    """

    stages: Mapping[str, Stage]
    pretraining: Callable[[Options, str], list[Step]]
    suffix: str = ''
    text: dict[str, Any] = {}


FROM_SCRATCH = Start(metaqa.STAGES, lambda options, _: metaqa.pretrained(options))
# {system: the stage that trains its encoder on questions, and its bindings}. The index of mentions
# (DrKIT) learns from the queries of one hop, as there is no knowledge base.
_ALIGNED: dict[str, tuple[str, dict[str, Any]]] = {
    'opql': ('align', {}),
    'drkit': ('align-mentions', {'objectives.AlignPassages.split': '1-hop/train'}),
    'kv-memory': ('kv-memory-align', {}),
}
CHOICES: Choices = {
    'system': ('opql', 'opql-pretrained', 'drkit', 'kv-memory'),
    'protocol': PROTOCOLS,
    'share': slot_filling.SHARES,
}


def prepared(options: Options, text: str, part: str, **bindings) -> Step:
    """The prepared paragraphs and queries of a part."""
    return prepare(text, 'gin/data/msf.gin', DATA_DIR=options.file('msf'), PART=part, **bindings)


def _relations(folder: str) -> set[str]:
    """The relations that training queries of one hop ask for."""
    (path,) = [path for name, path in Msf(folder, hops=(1,)).files().items() if 'queries' in name]
    types = [record['type'].split(RELATION_SEPARATOR) for record in queries(path)]
    return {relation for relations in types for relation in relations}


def msf(options: Options, start: Start = FROM_SCRATCH) -> list[Step]:
    """Queries such as 'Steve Jobs, founder, headquarters in' over untrained paragraphs."""
    name, percent, data = options.system, options.share, options.file('msf')
    chosen = random_share(_relations(data), percent / 100, options.seed) if percent else ()
    new = Novelty(options.protocol, percent, chosen) if percent else ALL_SEEN
    text, is_kv = f'text{start.suffix}', name == 'kv-memory'
    stages = metaqa.STAGES if is_kv else start.stages
    if is_kv:
        entities = f'kv-entities{start.suffix}', stages['kv-memory-entities']
        models = [train(*entities, options, TEXT=text)]
    else:
        models = start.pretraining(options, text)
    align, encoder = None, models[-1].name
    if name in _ALIGNED:
        stage, bindings = _ALIGNED[name]
        encoder = f'{stage}{start.suffix}'
        align = encoder, stages[stage], bindings
    pretraining = lambda options: [prepared(options, text, 'train', **start.text), *models]
    follow = stages['kv-memory-follow' if is_kv else 'follow']
    memory, last = f'memory-{encoder}', models[-1].name
    system = System(pretraining, last, memory, follow, align, text=text)
    row = f'{name}{start.suffix}'
    steps, model, memory, follower = system.trained(options, f'follow-{row}', new)
    for hops in ('2-hop', '3-hop'):
        asked, entries = f'{text}-{hops}', f'{memory}-{hops}'
        steps += [
            prepared(options, asked, 'test', HOPS=(int(hops[0]),), EXTENDS=text),
            build_memory(entries, model, asked, ONLY_NEW=True),
            *new.evaluations(row, follower, entries, [f'{hops}/test'], asked, hops),
        ]
    return steps


RECIPES = [
    Recipe('msf', 'multi-hop slot filling over Wikipedia (MSF); needs your own files', msf, CHOICES)
]
