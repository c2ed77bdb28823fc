"""A small language model over a random memory; run in a process with 8 virtual devices, leaves in
OUTPUT (.npz) what several meshes compute.
"""

import collections
import functools
import itertools
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core.hashing import leaf_name
from opql_jax.data.lm_markup import Texts
from opql_jax.memory.sharding import shard_memory
from opql_jax.models.language_model import LanguageModel
from opql_jax.models.mixing import best_entities, prediction_loss
from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh

import eight_devices
import tiny_encoder

# Of `eight_devices`; each of its axes is one of '8' and '2x4'.
MESHES = ('8', '2x4')
# Numbers that devices do not divide evenly.
# And a text that asks nothing.
NO_TOPIC = 3
ENTITIES, ENTRIES, TEXTS, TOPICS, LENGTH, K = 11, 61, 5, 2, 12, 4
# The last text has none.
LABELS = np.array([4, 0, 9, 2, -1], np.int32)
ANSWERS = np.array([[4, 7, 1], [3, -1, -1], [-1, -1, -1], [2, 5, -1], [6, -1, -1]], np.int32)


_FIELDS = 'model params table topic target relations passages text'
Setting = collections.namedtuple('Setting', _FIELDS)
ENCODER = tiny_encoder.make(entity_dim=8)


@functools.cache
def encoder_params():
    zeros = jnp.zeros((1,), jnp.int32)
    return ENCODER.init(jax.random.key(0), jnp.zeros((1, 8), jnp.int32), zeros, zeros)['params']


def make(**options) -> Setting:
    rng = np.random.default_rng(3)
    model = LanguageModel(ENCODER, max_hops=2, k=K, **options)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    params = {'encoder': encoder_params()} | model.init(jax.random.key(1))
    # Every part must matter, also what starts at zero or as an identity.
    params = jax.tree.map(lambda x: np.asarray(x) + 0.3 * draw(*x.shape), params)
    table = draw(ENTITIES, 8)
    used = rng.random((TEXTS, TOPICS)) < 0.5
    used[:, 0] = True
    used[0] = True
    used[NO_TOPIC] = False
    places = np.where(used, rng.integers(1, 8, (2, TEXTS, TOPICS)), 0).astype(np.int32)
    topic = np.sort(rng.integers(0, ENTITIES, ENTRIES)).astype(np.int32)
    text = Texts(
        tokens=rng.integers(1, 40, (TEXTS, LENGTH)).astype(np.int32),
        start=places[0],
        r1=places[1],
        r2=rng.integers(9, LENGTH, TEXTS).astype(np.int32),
        used=used,
        passage=np.arange(TEXTS, dtype=np.int32) - 1,
        exclude=np.array([[-1, -1], [4, 9], [-1, -1], [-1, -1], [-1, 7]], np.int32),
        gold=np.where(
            rng.random((TEXTS, TOPICS, 3)) < 0.5, rng.integers(0, ENTRIES, (TEXTS, TOPICS, 3)), -1
        ).astype(np.int32),
    )
    target = rng.integers(0, ENTITIES, ENTRIES).astype(np.int32)
    passages = rng.integers(-1, 4, (ENTRIES, 2)).astype(np.int32)
    # Gold entries are never of the text's own passage, and none is named twice.
    for n in range(TEXTS):
        for t in range(TOPICS):
            gold = text.gold[n, t]
            own = (passages[gold] == text.passage[n]).any(axis=1)
            own |= np.isin(target[gold], text.exclude[n])
            kept = [g for i, g in enumerate(gold) if g >= 0 and not own[i] and g not in gold[:i]]
            text.gold[n, t] = kept + [-1] * (3 - len(kept))
    params |= {'entity_table': table}
    return Setting(model, params, table, topic, target, draw(ENTRIES, 6), passages, text)


def combined(drawn):
    """({target: mass}, mass of null), from the same of each topic: each draws one of its entries or
    null, and draws that differ are not counted.
    """
    masses, unseen = collections.Counter(), 1e-3 if len(drawn) > 1 else 0.0
    outcomes = [[*entries.items(), (None, null + unseen)] for entries, null in drawn]
    for draw in itertools.product(*outcomes):
        targets = {target for target, _ in draw} - {None}
        if len(targets) == 1:
            masses[targets.pop()] += math.prod(mass for _, mass in draw)
    null = math.prod(null for _, null in drawn)
    total = sum(masses.values()) + null
    return {target: mass / total for target, mass in masses.items()}, null / total


def run(setting: Setting, mesh, hops, train=False, memory=True, gradient=False) -> dict:
    layout = entity_table.Layout(mesh, ENTITIES)
    params = setting.params | {'entity_table': entity_table.place(setting.table, layout)}
    arrays, rng, passages, text = None, jax.random.key(0), setting.passages, setting.text
    if not train:
        rng, passages, text = None, None, text._replace(passage=None, exclude=None, gold=None)
    if memory:
        columns = setting.topic, setting.target, setting.relations
        arrays = shard_memory(*columns, mesh, passages=passages)

    def compute(params, text, arrays):
        out = setting.model(params, layout, [text], hops, arrays, rng)
        best = lambda k: best_entities(out.prediction, params['entity_table'], layout, k)
        ranked = [best(ENTITIES), best(3)]
        asked = out.prediction, LABELS, ANSWERS, params['entity_table'], layout
        loss, accuracy = prediction_loss(*asked)
        return loss, (out, setting.model.encode(params, layout, [text], rng), ranked, accuracy)

    without_gradient = lambda *arguments: (compute(*arguments), None)
    program = jax.jit(jax.value_and_grad(compute, has_aux=True) if gradient else without_gradient)
    computed, gradients = program(params, text, arrays)
    loss, (out, read, ranked, accuracy) = jax.device_get(computed)
    (entities, probabilities), best = ranked
    found = {
        'prediction': np.take_along_axis(probabilities, entities.argsort(axis=1), axis=1),
        'best': best,
        'loss': loss,
        'accuracy': accuracy,
        'read': read,
        'log_probs': [hop.log_probs for hop in out.hops],
        'entries': [hop.entries for hop in out.hops],
    }
    if gradient:
        gradients['entity_table'] = gradients['entity_table'][: layout.num_entities]
        found['gradients'] = jax.device_get(gradients)
    return found


def main(output):
    assert jax.device_count() == 8, jax.devices()
    kept = {}
    for devices in ('1', *MESHES):
        for mixing in ('distributions', 'embeddings'):
            setting = make(entity_layer=1, filter=True, exclude_topic=True, mixing=mixing)
            mesh = make_mesh(**eight_devices.MESHES[devices])
            found = run(setting, mesh, hops=2, train=True, gradient=True)
            kept[f'{devices}/{mixing}/prediction'] = found['prediction']
            kept[f'{devices}/{mixing}/entries'] = np.concatenate(found['entries'], axis=1)
            for path, leaf in jax.tree.leaves_with_path(found['gradients']):
                kept[f'{devices}/{mixing}/gradient/{leaf_name(path)}'] = leaf
    np.savez(output, **kept)


if __name__ == '__main__':
    main(sys.argv[1])
