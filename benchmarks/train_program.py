"""The project's encoders and its training step with its state, as the benchmarks run them."""

import pathlib

import jax

import gin
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import shard_batch
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Objective, Task
from opql_jax.training.optimizer import make_optimizer

MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'


def make_encoder(model: str, vocab_size: int, **fields) -> RelationEncoder:
    """The encoder of a size in gin/models."""
    gin.parse_config_file(str(MODELS / f'{model}.gin'))
    return gin.get_configurable(RelationEncoder)(vocab_size=vocab_size, **fields)


def make_task(objective: Objective, loss) -> Task:
    """A task without data.

    `loss` with the encoder and the layout bound, over the parameters that the objective trains.
    """
    return Task(source=None, loss=loss, trainable=objective.trainable, lineage={})


class TrainProgram:
    """Takes training steps (forward, backward, AdamW), compiled once for each set of shapes."""

    def __init__(self, task: Task, params, layout: Layout, memory=None):
        """Places the parameters as `layout` says.

        `memory` is what the loss reads besides, `state` what steps change.
        """
        optimizer = make_optimizer(1000)
        place = lambda tree: state.place(tree, layout, task.trainable)
        self.state = place(state.init_state(place(params), task.trainable, optimizer))
        self._step, self._mesh, self._memory = (
            trainer.make_train_step(task, optimizer, 0, layout.mesh),
            layout.mesh,
            memory,
        )
        self._programs: dict = {}

    def compiled(self, batch):
        """The program of a step over batches of these shapes."""
        shapes = tuple(array.shape for array in jax.tree.leaves(batch))
        if shapes not in self._programs:
            sharded = shard_batch(batch, self._mesh)
            self._programs[shapes] = self._step.lower(self.state, sharded, self._memory).compile()
        return self._programs[shapes]

    def __call__(self, batches):
        """Takes a step over each batch; returns the loss of the last."""
        for batch in batches:
            self.state, metrics = self.compiled(batch)(
                self.state, shard_batch(batch, self._mesh), self._memory
            )
        return metrics['loss']
