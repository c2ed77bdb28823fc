"""The language model over several meshes; run by language_model_test.py in a process that has 8
virtual ones.

python tests/support/language_model_on_devices.py OUTPUT
"""

import sys

import jax
import numpy as np

from opql_jax.parallel.mesh import make_mesh

import language_model_cases as cases
from eight_devices import MESHES


def main(output):
    assert jax.device_count() == 8, jax.devices()
    kept = {}
    for devices in ('1', *cases.MESHES):
        for mixing in ('distributions', 'embeddings'):
            setting = cases.make(entity_layer=1, filter=True, exclude_topic=True, mixing=mixing)
            found = cases.run(
                setting, make_mesh(**MESHES[devices]), hops=2, train=True, gradient=True
            )
            kept[f'{devices}/{mixing}/prediction'] = found['prediction']
            kept[f'{devices}/{mixing}/entries'] = np.concatenate(found['entries'], axis=1)
            for path, leaf in jax.tree.leaves_with_path(found['gradients']):
                kept[
                    f'{devices}/{mixing}/gradient/{jax.tree_util.keystr(path, simple=True, separator="/")}'  # noqa: E501
                ] = leaf
    np.savez(output, **kept)


if __name__ == '__main__':
    main(sys.argv[1])
