"""What a run's parameters come from, by which runs are resumed and models matched to memories."""

import json

from opql_jax.data.prepared import Prepared
from opql_jax.training import model_config
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.objectives.base import Task
from opql_jax.training.progress import TrainingError


def read_meta(workdir: str | None) -> dict | None:
    """The meta data of a run's newest checkpoint; None for no run."""
    if not workdir:
        return None
    model_config.read(workdir)  # says more clearly if the folder is no run's
    with Checkpoints(workdir, read_only=True) as checkpoints:
        return checkpoints.meta()


def describe_run(
    task: Task, prepared: Prepared, seed: int, origin: dict | None, bert_hash: str | None = None
) -> dict:
    """A run's lineage as JSON: the objective, the data, the seed, and what it starts from.

    That is a run of the meta data `origin`, or an encoder of weights with `bert_hash`.
    """
    origin = origin or {'params_hash': None, 'lineage': {}}
    lineage = {**task.lineage, 'seed': seed, 'prepared_hash': prepared.hash()}
    lineage |= {'init_hash': origin['params_hash'], 'bert_hash': bert_hash}
    # Inherited by runs that start from this one.
    lineage['entities_of_names'] = bool(
        lineage.get('entities_of_names') or origin['lineage'].get('entities_of_names')
    )
    return json.loads(json.dumps(lineage))


def check_same_run(before: dict, now: dict, workdir) -> None:
    """Raises TrainingError, naming the differences, if a folder holds another run."""
    names = sorted(before.keys() | now.keys())
    if before['objective'] != now['objective']:
        names = ['objective']
    differs = [
        f'{name} was {before.get(name)!r} and is {now.get(name)!r}'
        for name in names
        if before.get(name) != now.get(name)
    ]
    if differs:
        raise TrainingError(
            f'{workdir} cannot be resumed as another run '
            f'({"; ".join(differs)}): use another workdir'
        )
