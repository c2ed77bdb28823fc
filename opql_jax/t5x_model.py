"""The stages as models of t5x, so that its train, eval and infer binaries can drive them. t5x itself is not imported.

    model = T5xModel(stages.RelationStage(rows=256), encoder, '/data/prepared', optimizer_def)
    optimizer_def = t5x.optimizers.OptaxWrapper(trained_only(stage, step.make_optimizer(20_000)))

What t5x asks of a model (`t5x.models.BaseModel`) is here; the losses are the stages'. Three things are peculiar:

- An element of a task of `opql_jax_tasks.opql` is a whole batch, so t5x's batch of B elements, its first axis, is B batches,
  which are trained on as one, as `data.pipeline.joined` makes one of several shards' batches: B is a multiple of the devices along
  'data', usually their number. Tasks must not be shuffled, and predictions and scores are those of elements, [B, rows, ...] and [B].
- How many hops a batch has cannot be static under t5x, so all numbers in `hops` are compiled. A batch of another number, and
  one whose elements differ, has the loss NaN; predictions of an element of another number are -1 and NaN,
  and -1 is to SeqIO's metrics an answer that was not found.
- t5x's optimizers see all parameters. Frozen ones get no gradient, and stay as they are only under `trained_only` (or t5x's
  MultiOptimizer with `flax.traverse_util.ModelParamTraversal(lambda name, _: stage.trainable(name[1:]))`).

`params_axes` names the axes of parameters as t5x's standard rules know them, and rows of the entity table 'entities', which t5x must
be told about: `standard_logical_axis_rules(additional_rules=[('entities', ('data', 'model'))])` spreads them over all devices. A
memory that a stage reads, and parameters of `init_from`, are constants of what t5x compiles, and no part of its checkpoints.
gin/t5x shows how its binaries are called.
"""

import os
import re
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import optax
from clu import metrics as clu_metrics
from flax import traverse_util
from flax.core import freeze
from flax.linen import partitioning
from jax.sharding import Mesh

from opql_jax.data.prepared import Prepared
from opql_jax.data.tokenizer import find_minilm
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import step as step_lib
from opql_jax.training.stages import Stage
from opql_jax.training.trainer import origin_of, start_params
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


def trained_only(stage: Stage, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimizer for the parameters that the stage trains; the others do not change."""
    label = lambda path, _: 'trained' if stage.trainable(step_lib.name_of(path)) else 'frozen'
    labels = lambda params: jax.tree.map_with_path(label, params)
    return optax.multi_transform({'trained': optimizer, 'frozen': optax.set_to_zero()}, labels)


class T5xModel:
    """A stage over a prepared folder with the interface of t5x's models."""

    FEATURE_CONVERTER_CLS = EvaluatedBatches  # changes nothing

    def __init__(
        self,
        stage: Stage,
        encoder,
        prepared_dir: str | os.PathLike,
        optimizer_def=None,
        *,
        hops: Sequence[int] | None = None,
        init_from: str | None = None,
        bert_folder: str | None = None,
        mesh: Mesh | None = None,
    ):
        """
        Args:
            stage: what is trained; it is opened here.
            encoder: makes the relation encoder, as for `training.run.train`.
            prepared_dir: the prepared folder of the task.
            optimizer_def: t5x's, see above; eval and infer need none.
            hops: numbers of hops that batches may have, for a stage that follows questions; 1 .. max_hops if None.
            init_from, bert_folder: where parameters start that no checkpoint of t5x restores; see `training.run.train`.
            mesh: of t5x's partitioner; if None all devices along 'data', as PjitPartitioner(num_partitions=1) has it.

        Raises:
            InputError: what the stage or the run `init_from` says about files that do not fit.
        """
        prepared = Prepared(prepared_dir)
        self.optimizer_def, self.stage = optimizer_def, stage
        self.encoder: RelationEncoder = encoder(vocab_size=prepared.tokenizer.get_vocab_size())
        stage.open(prepared)
        self.prepared_dir, self._prepared, self._bert_folder = prepared_dir, prepared, bert_folder
        # t5x refuses a task of another one, which here is a task of another prepared folder.
        self.input_vocabulary = self.output_vocabulary = WordPieceVocabulary(prepared_dir)
        mesh = make_mesh() if mesh is None else mesh
        self._layout, self._constants = Layout(mesh, len(prepared.vocab)), stage.constants(mesh)
        self._hops = tuple(sorted({*(hops or range(1, getattr(stage, 'max_hops', 1) + 1))}))
        self._given = None
        if init_from:
            # Read here, as t5x calls `get_initial_variables` under jit.
            self._given = self._start(0, init_from)
            stage.check_init(self._given, origin_of(init_from)['lineage'])

    def _start(self, seed, init_from=None):
        bert_folder = find_minilm() if self._bert_folder == 'minilm' else self._bert_folder
        return self.stage.init(self.encoder, start_params(self.encoder, self._prepared, init_from, bert_folder, seed))

    def get_initial_variables(self, rng: jax.Array, input_shapes: Mapping, input_types: Mapping | None = None):
        """`params` and the names of their axes, `params_axes`; the shapes of the input change neither."""
        del input_shapes, input_types
        params = self._start(rng) if self._given is None else self._given
        padding = -self._layout.num_entities % self._layout.mesh.size
        if self.stage.trainable('entity_table'):
            params = {**params, 'entity_table': jnp.pad(params['entity_table'], ((0, padding), (0, 0)))}
        flat = traverse_util.flatten_dict(params, sep='/')
        axes = {f'{name}_axes': partitioning.AxisMetadata(_axes(name, value.ndim)) for name, value in flat.items()}
        return freeze({'params': params, 'params_axes': traverse_util.unflatten_dict(axes, sep='/')})

    def loss_fn(self, params, batch: Mapping, dropout_rng: jax.Array | None):
        """(the stage's loss, its metrics and the loss as clu metrics); without dropout if there is no key."""
        trained, frozen = step_lib.split_params(params, self.stage.trainable)
        params = step_lib.merge_params(trained, jax.lax.stop_gradient(frozen))
        loss, metrics = self._loss(params, _joined(batch), dropout_rng)
        return loss, {'loss': clu_metrics.Average.from_model_output(loss), **metrics}

    def eval_fn(self, params, batch: Mapping):
        """`loss_fn` without dropout."""
        return self.loss_fn(params, batch, None)

    def predict_batch(self, params, batch: Mapping, rng: jax.Array | None = None):
        """The first of what `predict_batch_with_aux` gives."""
        return self.predict_batch_with_aux(params, batch, rng)[0]

    def predict_batch_with_aux(self, params, batch: Mapping, rng: jax.Array | None = None):
        """What `Stage.predict` says of each element: arrays whose first axis is B. It depends on no key."""
        del rng
        params = step_lib.merge_params(*step_lib.split_params(params, self.stage.trainable))  # as a plain dict

        def one(batch):
            say = lambda batch, static: self.stage.predict(self.encoder, self._layout, params, batch, self._constants, static)
            said = self._of_hops(say, batch)
            if 'hops' not in batch:
                return said
            nothing = lambda value: jnp.nan if jnp.issubdtype(value.dtype, jnp.floating) else -1
            return jax.tree.map(lambda value: jnp.where(self._known(batch), value, nothing(value)), said)

        return jax.lax.map(one, _elements(batch))

    def score_batch(self, params, batch: Mapping, return_intermediates: bool = False):
        """The negative loss of each element, [B] float32; with it, on request, the empty intermediates of the model."""
        params = step_lib.merge_params(*step_lib.split_params(params, self.stage.trainable))
        scores = jax.lax.map(lambda batch: -self._loss(params, batch, None)[0], _elements(batch))
        return (scores, {}) if return_intermediates else scores

    def _loss(self, params, batch, rng):
        """The loss of a batch in the form of `data.sources` and its metrics, those of other numbers of hops empty."""
        encoder = self.encoder if rng is not None else self.encoder.clone(dropout_rate=0.0)
        rng = jax.random.key(0) if rng is None else rng

        def compute(batch, static):
            loss, metrics = self.stage.loss(encoder, self._layout, params, batch, self._constants, static, rng)
            return loss, {name: clu_metrics.Average.from_model_output(value) for name, value in metrics.items()}

        if 'hops' not in batch:
            return self._of_hops(compute, batch)
        none = clu_metrics.Average.empty()
        names = {}
        for hops in self._hops:
            names |= jax.eval_shape(lambda batch: self._at(compute, batch, hops=hops)[1], batch)

        def padded(batch, static):
            loss, metrics = compute(batch, static)
            return loss, {name: metrics.get(name, none) for name in names}

        loss, metrics = self._of_hops(padded, batch)
        return jnp.where(self._known(batch), loss, jnp.nan), metrics

    def _known(self, batch):
        """Whether the batch has one number of hops, and that is compiled."""
        return jnp.any(batch['hops'] == jnp.array(self._hops)) & jnp.all(batch['hops'] == jnp.ravel(batch['hops'])[0])

    def _of_hops(self, compute, batch):
        """`compute(batch, static)` of a batch, at its number of hops if it has one."""
        if 'hops' not in batch:
            return self._at(compute, batch)
        first = jnp.ravel(batch['hops'])[0]
        index = sum((first > hops).astype(jnp.int32) for hops in self._hops[:-1]) if len(self._hops) > 1 else 0
        branches = [lambda batch, hops=hops: self._at(compute, batch, hops=hops) for hops in self._hops]
        return jax.lax.switch(index, branches, batch)

    def _at(self, compute, batch, **known):
        """`compute` of a batch whose number of hops is `known`, or that has none."""
        batch = {**batch, **known}
        static = self.stage.static(batch)
        return compute(batch, static)


def _axes(name: str, ndim: int) -> tuple:
    fits = (axes for end, axes in _AXES if re.search(rf'(^|/){end}$', name) and len(axes) == ndim)
    return next(fits, (None,) * ndim)


def _elements(batch: Mapping) -> dict:
    """The features as sources name them: those of `question_sets` lack the length of their bucket."""
    if 'tokens' not in batch:
        return dict(batch)
    length = batch['tokens'].shape[-1]
    hops = {'hops': batch['hops'][:, 0]} if 'hops' in batch else {}
    return {f'{name}_{length}': value for name, value in batch.items() if name != 'hops'} | hops


def _joined(batch: Mapping) -> dict:
    """The B batches of t5x's batch as one: rows one after the other; numbers, such as hops, stay [B]."""
    return {
        name: jnp.reshape(value, (-1, *value.shape[2:])) if value.ndim > 1 else value
        for name, value in _elements(batch).items()
    }
