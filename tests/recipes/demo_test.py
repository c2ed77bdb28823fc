"""The demo in a small world, trained for eight minutes: no worse than it was."""

import json
import os
import subprocess
import sys

import pytest

from opql_jax.recipes import record

# So little training ends at other figures with each seed and kind of processor. Over the seeds 0, 1
# and 2 the four sets had standard deviations of up to 0.054, their mean 0.027: floors are three of
# these below the average.
MEAN_FLOOR = 0.75
FLOORS = {'1-hop/test': 0.66, '2-hop/test': 0.71, '3-hop/test': 0.71, '1-hop/unseen_wording': 0.66}


@pytest.mark.slow
def test_hits_at_1_of_a_small_world_stay_above_their_floors(tmp_path):
    command = '-m opql_jax.recipes run demo --documents 250 --percent 45 --out'.split()
    # Hundreds of steps: here compiling well is worth its time, unlike in other tests. LLVM's higher
    # levels, which users have, only take longer.
    flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_backend_optimization_level=1'
    environment = os.environ | {'JAX_DISABLE_MOST_OPTIMIZATIONS': '0', 'XLA_FLAGS': flags}
    command, where = [sys.executable, *command, str(tmp_path / 'demo')], dict(cwd=record.ROOT)
    done = subprocess.run(command, **where, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads((tmp_path / 'demo/results/metrics.json').read_text(encoding='utf-8'))
    assert metrics.keys() == FLOORS.keys()
    assert sum(metrics[name]['hits@1'] for name in FLOORS) / len(FLOORS) >= MEAN_FLOOR, metrics
    for name, floor in FLOORS.items():
        assert metrics[name]['hits@1'] >= floor, (name, metrics)
