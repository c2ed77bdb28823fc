"""Training objectives as models for t5x's train, eval and infer binaries, without importing t5x.

What t5x calls on a model (`t5x.models.BaseModel`) is here; the losses are the objectives', and the
model registers the SeqIO task of its objective. gin/t5x shows how the binaries are called. Three
things are peculiar:

- An element of the task is a whole batch, so t5x's batch of B elements, its first axis, is B
  batches, the shards of one step, which are concatenated: B is a multiple of the devices along
  'data', usually their number.
- A batch's number of hops cannot be static under t5x, so all that occur in the data are compiled.
  The loss of another number, or of elements that differ, is NaN, and predictions are -1 and NaN.
- t5x's optimizers see all parameters. Frozen ones get no gradient, but keep their values only under
  `trained_only`, which `make_optimizer` has (or t5x's MultiOptimizer with
  `flax.traverse_util.ModelParamTraversal(lambda name, _: objective.trainable(name[1:]))`).

`params_axes` names the axes of parameters as t5x's standard rules know them, and rows of the entity
table 'entities', which t5x must be told about:
`standard_logical_axis_rules(additional_rules=[('entities', ('data', 'model'))])` spreads them over
all devices. The memory of an objective, and parameters of `init_from`, are constants of what t5x
compiles, and no part of its checkpoints.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from clu import metrics as clu_metrics
from clu import values as clu_values
from flax import traverse_util
from flax.core import freeze, unfreeze
from flax.linen import partitioning
from jax.sharding import Mesh

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import leaf_name
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.sources.base import Hops, from_named_leaves
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.mesh import make_mesh, row_devices
from opql_jax.training import model_config, t5x_checkpoints, trainer
from opql_jax.training import state as state_lib
from opql_jax.training.objectives import Objective
from opql_jax.training.optimizer import make_schedule as schedule_of
from opql_jax_tasks import opql
from opql_jax_tasks.vocabulary import EntityVocabulary, WordPieceVocabulary

# The axes of parameters by the end of their names, the first that fits; all others lie whole on
# each device.
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


def write_answers(
    path: str, inferences: tuple, task_ds, mode: str, vocabulary: EntityVocabulary
) -> None:
    """`write_fn` of t5x.infer: predictions as `opql_jax.infer` writes them, but for traces of hops.

    They are sorted by hops, see `evaluation.predictions`. For a task without questions, and in the
    mode 'score', each element is a line: {score}, or {prediction} and the model's other outputs.

    Args:
        path: of the file.
        inferences: (predictions, what else the model says of them), of each element of `task_ds`.
        task_ds, mode: the elements, and the mode of t5x.infer.
        vocabulary: of the feature 'targets'.
    """
    predictions, aux = inferences

    def lines():
        for i, element in enumerate(task_ds.as_numpy_iterator()):
            found = np.asarray(predictions[i]).tolist()
            others = {name: np.asarray(values[i]).tolist() for name, values in aux.items()}
            if mode == 'score' or 'id' not in element:
                yield {'score' if mode == 'score' else 'prediction': found, **others}
                continue
            names, keys, (scores,) = vocabulary.names, vocabulary.keys, others.values()
            rows = zip(element['id'], element['question'], found, scores)
            for name, question, entities, weights in rows:
                if name:
                    answers = [
                        {'entity': names[entity], 'key': keys[entity], 'weight': weight}
                        for entity, weight in zip(entities, weights)
                        if entity >= 0
                    ]
                    yield {'id': name.decode(), 'question': question.decode(), 'answers': answers}

    text = ''.join(json.dumps(line, ensure_ascii=False) + '\n' for line in lines())
    files.path(path).write_text(text, encoding='utf-8')


# What `TrainConfig` sets of the loop, which is t5x's here, and where t5x sets it.
_LOOP = {
    'log_every': 'train.stats_period',
    'checkpoint_every': 'CHECKPOINT_PERIOD',
    'checkpoint_minutes': 'CHECKPOINT_PERIOD',
    'keep_checkpoints': 'utils.SaveCheckpointConfig.keep',
    'data_devices': 'NUM_PARTITIONS',
    'model_devices': 'NUM_PARTITIONS',
    'accumulate_steps': 'NUM_MICROBATCHES',
    **dict.fromkeys(('input_processes', 'remat', 'slices', 'profile_steps')),
}


def _check_config(config):
    """Raises InputError for a setting that has no effect under t5x."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in _LOOP and value != field.default:
            theirs = _LOOP[field.name]
            advice = f'set {theirs} instead' if theirs else 'leave it out'
            raise InputError(f'TrainConfig.{field.name}={value!r} does nothing under t5x: {advice}')


def make_schedule(config: trainer.TrainConfig) -> optax.Schedule:
    """The learning rate of `make_optimizer` as a function of the step, for t5x to log.

    Args:
        config: the model's.
    """
    return schedule_of(config.num_steps, config.learning_rate, config.warmup_steps, config.schedule)


def make_optimizer(
    objective: Objective, config: trainer.TrainConfig
) -> optax.GradientTransformation:
    """The optimizer of `trainer.train` for the parameters that the objective trains.

    Args:
        objective, config: the model's.
    """
    return trained_only(objective, trainer.optimizer_of(config))


def trained_only(
    objective: Objective, optimizer: optax.GradientTransformation
) -> optax.GradientTransformation:
    """The optimizer for the parameters that the objective trains; the others do not change."""
    trains = lambda path: objective.trainable(leaf_name(path))
    label = lambda path, _: 'trained' if trains(path) else 'frozen'
    labels = lambda params: jax.tree.map_with_path(label, params)
    return optax.multi_transform({'trained': optimizer, 'frozen': optax.set_to_zero()}, labels)


@flax.struct.dataclass
class _Average(clu_metrics.Average):
    """An average that is no number where there is nothing, as no batch of some number of hops."""

    def compute_value(self):
        return super().compute_value() if np.any(self.count) else clu_values.Text('none')


class T5xModel:
    """An objective over a knowledge base as a model of t5x; `task` is what it built."""

    FEATURE_CONVERTER_CLS = opql.EvaluatedBatches

    def __init__(
        self,
        objective: Objective,
        encoder: Callable[..., RelationEncoder],
        config: trainer.TrainConfig,
        optimizer_def=None,
        *,
        task_name: str = 'opql',
        batch_size: int = 1,
        num_microbatches: int | None = None,
        questions: Sequence[str] = (),
        rows: int = 64,
        mesh: Mesh | None = None,
    ):
        """Opens the data and the objective, and registers the task.

        Args:
            objective: what is trained.
            encoder: makes the relation encoder, as for `trainer.train`.
            config: the settings of the run. Its `model` is MODEL_DIR of t5x, which states what is
                trained there; another run is refused. An empty one states and compares nothing.
                Settings of the loop, which is t5x's, keep their defaults.
            optimizer_def: t5x's, see above; None for a model that is only evaluated.
            task_name: of the task, see `opql_jax_tasks.opql.register`.
            batch_size: B of t5x's training.
            num_microbatches: that of t5x's trainer, which adds up the gradients of microbatches:
                they are divided by it.
            questions, rows: what the task's split 'validation' asks.
            mesh: of t5x's partitioner; if None all devices along 'data', as
                PjitPartitioner(num_partitions=1) has it.

        Raises:
            InputError: inputs of the objective or of `init_from` are missing or do not fit, or a
                setting of the loop is set; also as of `trainer.check_start`.
        """
        _check_config(config)
        trainer.check_start(config, objective)
        memory = objective.memory_dir or None
        self._mesh = make_mesh(slices=1) if mesh is None else mesh
        self._run = trainer.Run(objective, encoder, config, self._mesh)
        self.task = self._run.task
        self._structure = self.task.source[0]
        self.optimizer_def = optimizer_def
        self._microbatches = num_microbatches or 1
        text = KBFolder(config.kb).part(config.text)
        # t5x refuses a task of another vocabulary.
        self.input_vocabulary = self.output_vocabulary = WordPieceVocabulary(text)
        read = {'batch_size': batch_size, 'questions': questions, 'rows': rows}
        registered = opql.register(task_name, self._run.objective, text, **read)
        sources = self.task.source, registered.source.open(opql.VALIDATION)
        if optimizer_def is not None and not getattr(sources[1], 'has_answers', True):
            nothing = f'none of {", ".join(questions)} has a question with an answer'
            raise InputError(f'{nothing}, so training could not score it')
        hop_counts = [getattr(source, 'hop_counts', [0]) for source in sources]
        self._hops = tuple(sorted({*itertools.chain.from_iterable(hop_counts)}))
        self._params = None
        fit = self.task.fit if optimizer_def is not None else None
        starts_from_model = config.bert_folder and model_config.is_model(config.bert_folder)
        if self._run.init_from or memory or fit or starts_from_model:
            # Read here, as t5x calls `get_initial_variables` under jit.
            self._params = self._run.starting_params(config.seed)
            if fit:
                self._params = fit(self._params)
        if config.model:
            lineage = self._run.lineage() | {'batch_size': batch_size}
            stated = {'lineage': lineage, 'text': config.text, 'memory': memory}
            t5x_checkpoints.state_run(
                config.model,
                self._run.encoder,
                self._run.prepared,
                self._run.pair_encoding,
                stated,
                training=optimizer_def is not None,
            )

    def get_initial_variables(
        self, rng: jax.Array, input_shapes: Mapping, input_types: Mapping | None = None
    ):
        """`params` and their axes' names, `params_axes`; the input's shapes change neither."""
        del input_shapes, input_types
        params = self._run.starting_params(rng) if self._params is None else self._params
        split = self.task.trainable('entity_table')
        if split:
            padding = -len(self._run.prepared.vocab) % row_devices(self._mesh)
            table = jnp.pad(params['entity_table'], ((0, padding), (0, 0)))
            params = {**params, 'entity_table': table}
        flat = traverse_util.flatten_dict(params, sep='/')
        names = {name: self._axes(name, value.shape) for name, value in flat.items()}
        if not split:  # it lies whole on each device, as in `trainer.train`
            names['entity_table'] = (None, None)
        axes = {f'{name}_axes': partitioning.AxisMetadata(named) for name, named in names.items()}
        tree = traverse_util.unflatten_dict(axes, sep='/')
        return freeze({'params': params, 'params_axes': tree})

    def _axes(self, name: str, shape: tuple[int, ...]) -> tuple:
        """A parameter's axis names; none for axes that the devices along 'model' cannot share."""
        fits = (
            axes
            for end, axes in _AXES
            if re.search(rf'(^|/){end}$', name) and len(axes) == len(shape)
        )
        axes, parts = next(fits, (None,) * len(shape)), self._mesh.shape['model']
        return tuple(
            axis if axis == 'entities' or size % parts == 0 else None
            for axis, size in zip(axes, shape)
        )

    def loss_fn(self, params, batch: Mapping, dropout_rng: jax.Array | None):
        """(objective's loss over the number of microbatches, metrics); no key, no dropout."""
        trained, frozen = state_lib.split_params(params, self.task.trainable)
        params = state_lib.merge_params(trained, jax.lax.stop_gradient(frozen))
        loss, metrics = self._loss(params, _joined(batch), dropout_rng)
        return loss / self._microbatches, {'loss': _Average.from_model_output(loss), **metrics}

    def eval_fn(self, params, batch: Mapping):
        """`loss_fn` without dropout."""
        return self.loss_fn(params, batch, None)

    def predict_batch(self, params, batch: Mapping, rng: jax.Array | None = None):
        """The first part of what `predict_batch_with_aux` returns."""
        return self.predict_batch_with_aux(params, batch, rng)[0]

    def predict_batch_with_aux(self, params, batch: Mapping, rng: jax.Array | None = None):
        """What the task predicts for each element, whatever the key: arrays with first axis B."""
        del rng
        task_predict = self.task.predict
        if task_predict is None:
            other = "use MODE='score', or one that answers questions or encodes pairs"
            raise InputError(f'this objective predicts nothing: {other}')
        params = unfreeze(params)
        memory = self._memory(params)

        def predict(batch):
            out = self._with_hops(lambda batch: task_predict(params, batch, memory), batch)
            missing = lambda value: jnp.nan if jnp.issubdtype(value.dtype, jnp.floating) else -1
            masked = lambda value: jnp.where(self._is_compiled(batch), value, missing(value))
            return jax.tree.map(masked, out)

        return jax.lax.map(predict, _elements(batch))

    def score_batch(self, params, batch: Mapping, return_intermediates: bool = False):
        """The negative loss of each element, [B] float32; on request with empty intermediates."""
        params = unfreeze(params)
        scores = jax.lax.map(lambda batch: -self._loss(params, batch, None)[0], _elements(batch))
        return (scores, {}) if return_intermediates else scores

    def _loss(self, params, batch, rng):
        """The loss of a batch and its metrics, those of other numbers of hops empty."""
        memory = self._memory(params)

        def compute(batch):
            loss, metrics = self.task.loss(params, batch, memory, rng)
            average = _Average.from_model_output
            return loss, {name: average(value) for name, value in metrics.items()}

        names = {}
        for hops in self._hops:
            names |= jax.eval_shape(lambda batch: compute(self._structured(batch, hops))[1], batch)

        def padded(batch):
            loss, metrics = compute(batch)
            return loss, {name: metrics.get(name, _Average.empty()) for name in names}

        loss, metrics = self._with_hops(padded, batch)
        return jnp.where(self._is_compiled(batch), loss, jnp.nan), metrics

    def _memory(self, params):
        """The memory, with keys of these parameters if it has keys."""
        refresh = self.task.refresh
        if refresh is None:
            return self.task.memory
        return refresh(self.task.memory, jax.lax.stop_gradient(params))

    def _structured(self, batch, hops):
        """A batch as the task's source makes it, with a static number of hops."""
        leaves = {name: Hops(hops) if _is_hops(name) else x for name, x in batch.items()}
        return from_named_leaves(self._structure, leaves)

    def _is_compiled(self, batch):
        """Whether a batch's one number of hops is compiled; True if batches have none."""
        known = lambda x: jnp.isin(x, jnp.array(self._hops)).all()
        one = lambda x: (x == x.ravel()[0]).all()
        return jnp.array([known(x) & one(x) for x in _hops_of(batch)]).all()

    def _with_hops(self, compute, batch):
        """`compute(batch)` of the structured batch, at its number of hops if it has one."""
        if not (found := _hops_of(batch)):
            return compute(self._structured(batch, 0))
        index = jnp.searchsorted(jnp.array(self._hops), found[0].ravel()[0])
        at = lambda hops: lambda batch: compute(self._structured(batch, hops))
        branches = [at(hops) for hops in self._hops]
        return jax.lax.switch(index, branches, batch)


def _is_hops(name):
    return name.split('/')[-1] == 'hops'


def _hops_of(batch):
    """The features of a batch that are numbers of hops."""
    return [jnp.asarray(value) for name, value in batch.items() if _is_hops(name)]


def _elements(batch: Mapping) -> dict:
    """The features that a source makes, with numbers of hops [B] and not [B, 1]."""
    return {
        name: x[:, 0] if _is_hops(name) else x for name, x in batch.items() if name != 'targets'
    }


def _joined(batch: Mapping) -> dict:
    """The B batches of t5x's batch as one: rows one after the other; numbers of hops stay [B]."""
    return {
        name: jnp.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])) if x.ndim > 1 else x
        for name, x in _elements(batch).items()
    }
