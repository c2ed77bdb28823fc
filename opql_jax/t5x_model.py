"""Training objectives as models of t5x, so that its train, eval and infer binaries can drive them. t5x itself is not imported.

    model = T5xModel(objectives.Relations(rows=256), encoder, '/data/prepared', optimizer_def)
    optimizer_def = t5x.optimizers.OptaxWrapper(trained_only(objective, trainer.make_optimizer(20_000)))

What t5x calls on a model (`t5x.models.BaseModel`) is here; the losses are the objectives'. Three things are peculiar:

- An element of a task of `opql_jax_tasks.opql` is a whole batch, so t5x's batch of B elements, its first axis, is B batches,
  which are concatenated as those of several shards are: B is a multiple of the devices along 'data', usually their number.
  Tasks must not be shuffled, and predictions and scores are those of elements, [B, rows, ...] and [B].
- How many hops a batch has cannot be static under t5x, so all numbers in `hops` are compiled. A batch of another number, and
  one whose elements differ, has the loss NaN; predictions of an element of another number are -1 and NaN,
  and -1 is to SeqIO's metrics an answer that was not found.
- t5x's optimizers see all parameters. Frozen ones get no gradient, and stay as they are only under `trained_only` (or t5x's
  MultiOptimizer with `flax.traverse_util.ModelParamTraversal(lambda name, _: objective.trainable(name[1:]))`).

`params_axes` names the axes of parameters as t5x's standard rules know them, and rows of the entity table 'entities', which t5x must
be told about: `standard_logical_axis_rules(additional_rules=[('entities', ('data', 'model'))])` spreads them over all devices. The
memory of an objective, and parameters of `init_from`, are constants of what t5x compiles, and no part of its checkpoints.
gin/t5x shows how its binaries are called.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import optax
from clu import metrics as clu_metrics
from flax import traverse_util
from flax.core import freeze
from flax.linen import partitioning
from jax.sharding import Mesh

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Hops, from_named_leaves
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import lineage
from opql_jax.training import state as state_lib
from opql_jax.training.objectives import Objective
from opql_jax_tasks.question_sets import EvaluatedBatches
from opql_jax_tasks.vocabulary import WordPieceVocabulary

# The axes of parameters by the end of their names, the first that fits; all others lie whole on each device.
_AXES = (
    (r'entity_table', ('entities', 'embed')),
    (r'token_embedding/embedding', ('vocab', 'embed')),
    (r'qkv/kernel', ('embed', None, 'heads', 'kv')),
    (r'qkv/bias', (None, 'heads', 'kv')),
    (r'attention_out/kernel', ('heads', 'kv', 'embed')),
    (r'mlp_in/kernel', ('embed', 'mlp')),
    (r'mlp_in/bias', ('mlp',)),
    (r'mlp_out/kernel', ('mlp', 'embed')),
)


def trained_only(objective: Objective, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimizer for the parameters that the objective trains; the others do not change.

    Args:
        objective: says which parameters it trains.
        optimizer: of these.
    """
    label = lambda path, _: 'trained' if objective.trainable(state_lib.param_name(path)) else 'frozen'
    labels = lambda params: jax.tree.map_with_path(label, params)
    return optax.multi_transform({'trained': optimizer, 'frozen': optax.set_to_zero()}, labels)


class T5xModel:
    """An objective over a prepared folder with the interface of t5x's models.

    Attributes:
        task: what the objective built.
    """

    FEATURE_CONVERTER_CLS = EvaluatedBatches  # changes nothing

    def __init__(
        self,
        objective: Objective,
        encoder: Callable[..., RelationEncoder],
        prepared_dir: str | os.PathLike,
        optimizer_def=None,
        *,
        hops: Sequence[int] | None = None,
        init_from: str | None = None,
        bert_folder: str | None = None,
        mesh: Mesh | None = None,
    ):
        """Opens the data and the objective.

        Args:
            objective: what is trained.
            encoder: makes the relation encoder, as for `trainer.train`.
            prepared_dir: the prepared folder of the task.
            optimizer_def: t5x's, see above; eval and infer need none.
            hops: numbers of hops that batches may have, for an objective over questions; 1 .. max_hops if None.
            init_from, bert_folder: where parameters start that no checkpoint of t5x restores; see `trainer.TrainConfig`.
            mesh: of t5x's partitioner; if None all devices along 'data', as PjitPartitioner(num_partitions=1) has it.

        Raises:
            InputError: what the objective or the run `init_from` needs is missing or does not fit.
        """
        self._prepared = Prepared(prepared_dir)
        self._encoder = encoder(vocab_size=self._prepared.tokenizer.get_vocab_size())
        self._mesh = make_mesh() if mesh is None else mesh
        self.task = objective.build(self._prepared, self._encoder, self._mesh)
        self._structure = self.task.source[0]
        self.optimizer_def, self._bert_folder = optimizer_def, bert_folder
        # t5x refuses a task of another vocabulary, which here is a task of another prepared folder.
        self.input_vocabulary = self.output_vocabulary = WordPieceVocabulary(prepared_dir)
        self._hops = tuple(sorted({*(hops or range(1, getattr(objective, 'max_hops', 1) + 1))}))
        self._params = None
        if init_from:
            # Read here, as t5x calls `get_initial_variables` under jit.
            params = self._params = self._starting_params(0, init_from)
            meta = lineage.read_meta(init_from)
            self.task.check_init(params, meta['lineage'] if meta else {})

    def _starting_params(self, seed, init_from=None):
        params = state_lib.starting_params(self._encoder, self._prepared, init_from, self._bert_folder, seed)
        return self.task.init(params)

    def get_initial_variables(self, rng: jax.Array, input_shapes: Mapping, input_types: Mapping | None = None):
        """`params` and the names of their axes, `params_axes`; the shapes of the input change neither."""
        del input_shapes, input_types
        params = self._starting_params(rng) if self._params is None else self._params
        if self.task.trainable('entity_table'):
            padding = -len(self._prepared.vocab) % self._mesh.size
            params = {**params, 'entity_table': jnp.pad(params['entity_table'], ((0, padding), (0, 0)))}
        flat = traverse_util.flatten_dict(params, sep='/')
        axes = {f'{name}_axes': partitioning.AxisMetadata(_axes(name, value.ndim)) for name, value in flat.items()}
        return freeze({'params': params, 'params_axes': traverse_util.unflatten_dict(axes, sep='/')})

    def loss_fn(self, params, batch: Mapping, dropout_rng: jax.Array | None):
        """(the objective's loss, its metrics and the loss as clu metrics); without dropout if there is no key."""
        trained, frozen = state_lib.split_params(params, self.task.trainable)
        params = state_lib.merge_params(trained, jax.lax.stop_gradient(frozen))
        loss, metrics = self._loss(params, _joined(batch), dropout_rng)
        return loss, {'loss': clu_metrics.Average.from_model_output(loss), **metrics}

    def eval_fn(self, params, batch: Mapping):
        """`loss_fn` without dropout."""
        return self.loss_fn(params, batch, None)

    def predict_batch(self, params, batch: Mapping, rng: jax.Array | None = None):
        """The first part of what `predict_batch_with_aux` returns."""
        return self.predict_batch_with_aux(params, batch, rng)[0]

    def predict_batch_with_aux(self, params, batch: Mapping, rng: jax.Array | None = None):
        """What the task predicts for each element: arrays whose first axis is B. It depends on no key."""
        del rng
        task_predict = self.task.predict
        if task_predict is None:
            raise InputError('this objective predicts nothing: use one that answers questions or encodes pairs')
        params = _plain(params)

        def predict(batch):
            out = self._with_hops(lambda batch: task_predict(params, batch, self.task.memory), batch)
            missing = lambda value: jnp.nan if jnp.issubdtype(value.dtype, jnp.floating) else -1
            return jax.tree.map(lambda value: jnp.where(self._is_compiled(batch), value, missing(value)), out)

        return jax.lax.map(predict, _elements(batch))

    def score_batch(self, params, batch: Mapping, return_intermediates: bool = False):
        """The negative loss of each element, [B] float32; with it, on request, the empty intermediates of the model."""
        params = _plain(params)
        scores = jax.lax.map(lambda batch: -self._loss(params, batch, None)[0], _elements(batch))
        return (scores, {}) if return_intermediates else scores

    def _loss(self, params, batch, rng):
        """The loss of a batch and its metrics, those of other numbers of hops empty."""

        def compute(batch):
            loss, metrics = self.task.loss(params, batch, self.task.memory, rng)
            return loss, {name: clu_metrics.Average.from_model_output(value) for name, value in metrics.items()}

        names = {}
        for hops in self._hops:
            names |= jax.eval_shape(lambda batch: compute(self._structured(batch, hops))[1], batch)

        def padded(batch):
            loss, metrics = compute(batch)
            return loss, {name: metrics.get(name, clu_metrics.Average.empty()) for name in names}

        loss, metrics = self._with_hops(padded, batch)
        return jnp.where(self._is_compiled(batch), loss, jnp.nan), metrics

    def _structured(self, batch, hops):
        """A batch as the task's source makes it, with a static number of hops."""
        return from_named_leaves(self._structure, {name: Hops(hops) if _is_hops(name) else x for name, x in batch.items()})

    def _is_compiled(self, batch):
        """Whether the batch has one number of hops, and that is compiled; True if batches have none."""
        return jnp.array([jnp.isin(x, jnp.array(self._hops)).all() & (x == x.ravel()[0]).all() for x in _hops_of(batch)]).all()

    def _with_hops(self, compute, batch):
        """`compute(batch)` of the structured batch, at its number of hops if it has one."""
        if not (found := _hops_of(batch)):
            return compute(self._structured(batch, 0))
        index = jnp.searchsorted(jnp.array(self._hops), found[0].ravel()[0])
        branches = [lambda batch, hops=hops: compute(self._structured(batch, hops)) for hops in self._hops]
        return jax.lax.switch(index, branches, batch)


def _plain(params) -> dict:
    """The parameters as a plain dict; t5x's are frozen dicts."""
    return state_lib.merge_params(*state_lib.split_params(params, lambda name: True))


def _axes(name: str, ndim: int) -> tuple:
    fits = (axes for end, axes in _AXES if re.search(rf'(^|/){end}$', name) and len(axes) == ndim)
    return next(fits, (None,) * ndim)


def _is_hops(name):
    return name.split('/')[-1] == 'hops'


def _hops_of(batch):
    """The features of a batch that are numbers of hops."""
    return [jnp.asarray(value) for name, value in batch.items() if _is_hops(name)]


def _elements(batch: Mapping) -> dict:
    """The features with one number of hops per element, [B]; those of `question_sets` are one for each row."""
    return {name: x[:, 0] if _is_hops(name) and jnp.ndim(x) > 1 else x for name, x in batch.items()}


def _joined(batch: Mapping) -> dict:
    """The B batches of t5x's batch as one: rows one after the other; numbers of hops stay [B]."""
    return {name: jnp.reshape(x, (-1, *x.shape[2:])) if x.ndim > 1 else x for name, x in _elements(batch).items()}
