"""The entity table E over a mesh, softmax cross-entropy over it (paper §2, L_el), and attention.

Rows are split over all devices of a slice, padded with zero rows to a multiple of their number.
Each device scores its own rows chunk by chunk forward and again backward, so that no array
[mentions, n_entities] exists. The devices of a slice exchange numbers per mention, [M], and vectors
of mentions, [M, d_e]; never E or its gradient. Of several slices each has its share of the
mentions, and what they exchange is the sum of their gradients of E.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding

from opql_jax.core import distributed
from opql_jax.core.errors import InputError
from opql_jax.parallel.collectives import QueryLayout, owned
from opql_jax.parallel.mesh import (
    ROW_AXES,
    ROWS,
    platform_of,
    row_devices,
    slice_spec,
    sum_over_slices,
)

_NO_ID = np.iinfo(np.int32).max
# By how much the same score may differ from one loop to another.
_ROUNDING = 1e-6


# Scores [512, 4096] stay in a CPU's cache: 0.7 times the time of all 43,000 at once, and of 1024 or
# 16384 0.8 times.
DEFAULT_CHUNK = 4096

# Large and finite: a device with nothing but padding must add nothing, and inf - inf is NaN.
MASKED = -1e30

# Rows whose best score is a reference for the exponentials of all, and how far float32 lets scores
# be from it.
_FEW, _FAR = 128, 60.0


def chunk_rows(chunk: int | None, layout, on_tpu: int) -> int:
    """Rows a device scores at once: `chunk`, else for a CPU or `on_tpu`; InputError below 1."""
    if chunk is None:
        return DEFAULT_CHUNK if platform_of(layout.mesh) == 'cpu' else on_tpu
    if chunk < 1:
        raise InputError(f'chunk must be at least 1, not {chunk}')
    return chunk


def scan_rows(step, carry, vectors, table, layout, chunk):
    """Scans this device's rows: `carry = step(carry, start, ids, scores, rows)`.

    `start` is the first of the chunk's local row numbers, ids [C] int32 are its entities, scores
    [M, C] float32 those of the vectors, and rows [C, d_e] float32. Only the last chunk may have
    padding, whose scores are masked and whose rows are 0.
    """
    local = table.shape[0]
    padding = local * row_devices(layout.mesh) - layout.num_entities
    chunk = -(-local // -(-local // chunk))  # the last is hardly shorter
    first = lax.axis_index(ROW_AXES) * local

    def body(carry, start, size=chunk, padded=False):
        ids = first + start + jnp.arange(size, dtype=jnp.int32)
        rows = lax.dynamic_slice_in_dim(table, start, size).astype(jnp.float32)
        scores = vectors @ rows.T
        if padded:
            inside = ids < layout.num_entities
            scores, rows = jnp.where(inside, scores, MASKED), jnp.where(inside[:, None], rows, 0.0)
        return step(carry, start, ids, scores, rows)

    whole = max(local - padding, 0) // chunk
    starts = jnp.arange(whole, dtype=jnp.int32) * chunk
    carry, _ = lax.scan(lambda carry, start: (body(carry, start), None), carry, starts)
    rest = local - whole * chunk
    return body(carry, jnp.int32(whole * chunk), rest, padding > 0) if rest else carry


def scan_with_reference(step, carry, vectors, table, layout, chunk):
    """`scan_rows` of `step(carry, reference, ids, scores, rows)`: sums exp(score - reference).

    carry[0] is the best score [M]. With a reference known before the scores, a TPU sums while it
    multiplies and never writes them; with the running maximum it has to read them again, which
    takes three times as long. The reference is the best score of a few rows. If the best of all is
    so far from it that float32 cannot hold the exponentials, they are summed again from that.
    Returns the reference [M], the same on all devices, and the last carry.
    """
    few = min(_FEW, chunk, table.shape[0])
    inside = lax.axis_index(ROW_AXES) * table.shape[0] + jnp.arange(few) < layout.num_entities
    scores = jnp.where(inside, vectors @ table[:few].astype(jnp.float32).T, MASKED)

    def scan(state):
        reference, *_ = state
        with_reference = lambda done, start, *scored: step(done, reference, *scored)
        done = scan_rows(with_reference, carry, vectors, table, layout, chunk)
        best = lax.pmax(done[0], ROW_AXES)
        far = jnp.abs(best - reference) > _FAR
        return jnp.where(far, best, reference), far.any(), done

    start = lax.pmax(scores.max(axis=1), ROW_AXES), jnp.bool_(True), carry
    reference, _, carry = lax.while_loop(lambda state: state[1], scan, start)
    return reference, carry


class Attended(NamedTuple):
    """Softmax attention of vectors m over all rows of E, as `attend` returns it."""

    vectors: jax.Array  # [..., d_e] float32, m
    found: jax.Array  # [..., d_e] float32, the attended embedding softmax(E m)^T E
    lse: jax.Array  # [...] float32, the log-sum-exp of E m
    # [...] int32, the entity that scores best; the lowest id of those within 1e-6 of the best
    # score.
    best: jax.Array


class Layout(NamedTuple):
    """How the entity table is placed on a mesh."""

    mesh: Mesh  # whose devices, or those of each slice, share the rows
    num_entities: int  # rows of the table; those after them are padding


def padded_rows(layout: Layout) -> int:
    """The rows of the table once it is placed."""
    return layout.num_entities + -layout.num_entities % row_devices(layout.mesh)


def place(table, layout: Layout):
    """Splits rows [num_entities or more, ...], padded to a multiple, over a slice's devices."""
    rows = padded_rows(layout)
    if table.shape[0] < rows:
        more = (0, rows - table.shape[0])
        table = np.pad(np.asarray(table), (more, *[(0, 0)] * (table.ndim - 1)))
    return distributed.put(table, NamedSharding(layout.mesh, ROWS))


def lookup(table, ids, layout: Layout):
    """E[ids], each row from the device that owns it, with gradient to the placed table [n', d_e].

    Of ids [m] int32, of which -1 gives zeros, [m, d_e] float32, whole on each device of a slice.
    """
    split = slice_spec(len(ids), layout.mesh)

    def rows_of(ids, table):
        row, own = owned(ids, table.shape[0])
        return lax.psum(jnp.where(own[:, None], table[row].astype(jnp.float32), 0.0), ROW_AXES)

    run = jax.shard_map(rows_of, mesh=layout.mesh, in_specs=(split, ROWS), out_specs=split)
    return run(ids, table)


def pad_rows(table, mesh: Mesh):
    """Appends rows of zeros to the table [n, d_e] so that a slice's devices share it evenly."""
    return jnp.pad(table, ((0, -table.shape[0] % row_devices(mesh)), (0, 0)))


def weighted_sum(table, ids, weights, mesh: Mesh):
    """sum_i weights_i E[ids_i]: [B, d_e] float32, with gradient to the weights and the table.

    ids [B, k] int32, -1 in unused slots; rows of the table [n, d_e] are split over a slice.
    """
    add = lambda rows, own, weights: jnp.einsum(
        'bk,bkd->bd', jnp.where(own, weights, 0.0), rows, precision=lax.Precision.HIGHEST
    )
    return _sum_over_owners(add, table, ids, weights, mesh)


def row_scores(vectors, ids, table, mesh: Mesh):
    """vectors [B, d_e] . E[ids], else as of `weighted_sum`: [B, k] float32, 0 in unused slots."""

    def multiply(rows, own, vectors):
        found = jnp.einsum(
            'bd,bkd->bk', vectors.astype(jnp.float32), rows, precision=lax.Precision.HIGHEST
        )
        return jnp.where(own, found, 0.0)

    return _sum_over_owners(multiply, table, ids, vectors, mesh)


def _sum_over_owners(compute, table, ids, values, mesh: Mesh):
    """The sum over devices of `compute(rows [B, k, d_e], own [B, k], values)` of rows of ids."""
    layout = QueryLayout.of(len(ids), mesh)

    def of_device(table, ids, values):
        ids, values = layout.gather((ids, values))
        row, own = owned(ids, len(table))
        return layout.sum(compute(table[row].astype(jnp.float32), own, values))

    run = jax.shard_map(
        of_device, mesh=mesh, in_specs=(ROWS, layout.spec, layout.spec), out_specs=layout.spec
    )
    return run(pad_rows(table, mesh), ids, values)


def _over_rows(shard, layout: Layout, inputs, outputs):
    """`jax.shard_map` of a scan of each device's rows, unchecked as it cannot see through it."""
    return jax.shard_map(
        shard, mesh=layout.mesh, in_specs=inputs, out_specs=outputs, check_vma=False
    )


def _forward_shard(vectors, labels, table, *, layout, chunk):
    """(log-sum-exp, score of the label, whether it is best), each [M], the same on all devices."""
    label = labels[:, None]

    def step(carry, reference, ids, scores, rows):
        best, lower, own, total = carry
        highest = lambda rows, so_far: jnp.maximum(
            so_far, jnp.where(rows, scores, MASKED).max(axis=1)
        )
        return (
            jnp.maximum(best, scores.max(axis=1)),
            highest(ids < label, lower),
            highest(ids == label, own),
            total + jnp.exp(scores - reference[:, None]).sum(axis=1),
        )

    none = jnp.full(labels.shape, MASKED, jnp.float32)
    reference, carry = scan_with_reference(
        step, (none, none, none, jnp.zeros_like(none)), vectors, table, layout, chunk
    )
    best, lower, own = lax.pmax(carry[:3], ROW_AXES)
    # Among equals the lowest id is best.
    return reference + jnp.log(lax.psum(carry[3], ROW_AXES)), own, (own > lower) & (own >= best)


def _backward_shard(vectors, labels, lse, weights, table, *, layout, chunk, split):
    """Gradients of sum(weights * loss): to vectors, summed over devices, and to this one's rows."""
    weighted = weights[:, None] * vectors

    def step(carry, start, ids, scores, rows):
        to_vectors, to_table = carry
        # Masked scores have probability 0.
        probs = jnp.exp(scores - lse[:, None])
        change = jnp.where(ids == labels[:, None], probs - 1, probs)
        to_table = lax.dynamic_update_slice_in_dim(to_table, change.T @ weighted, start, 0)
        return to_vectors + change @ rows, to_table

    start = jnp.zeros_like(vectors), lax.empty(table.shape, jnp.float32)
    to_vectors, to_table = scan_rows(step, start, vectors, table, layout, chunk)
    to_vectors = lax.psum(weights[:, None] * to_vectors, ROW_AXES)
    return to_vectors, sum_over_slices(to_table, split).astype(table.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _cross_entropy(vectors, labels, table, layout, chunk):
    return _cross_entropy_forward(vectors, labels, table, layout, chunk)[0]


def _cross_entropy_forward(vectors, labels, table, layout, chunk):
    shard = functools.partial(_forward_shard, layout=layout, chunk=chunk)
    split = slice_spec(len(vectors), layout.mesh)
    run = _over_rows(shard, layout, (split, split, ROWS), split)
    lse, score, correct = run(vectors, labels, table)
    return (jnp.where(labels >= 0, lse - score, 0.0), correct), (vectors, labels, table, lse)


def _cross_entropy_backward(layout, chunk, residuals, cotangents):
    vectors, labels, table, lse = residuals
    weights = jnp.where(labels >= 0, cotangents[0], 0.0)
    split = slice_spec(len(vectors), layout.mesh)
    shard = functools.partial(_backward_shard, layout=layout, chunk=chunk, split=split)
    run = _over_rows(shard, layout, (split, split, split, split, ROWS), (split, ROWS))
    to_vectors, to_table = run(vectors, labels, lse, weights, table)
    return to_vectors, None, to_table


_cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def softmax_cross_entropy(vectors, labels, table, layout: Layout, chunk: int | None = None):
    """-log softmax(E m)[label] of each mention vector m, over all entities, inside `jax.jit`.

    Of vectors [M, d_e] float, labels [M] int32, -1 where there is none, and the placed table [n',
    d_e]: loss [M] float32, 0 without a label, with gradient to the vectors and the table; and
    whether the best-scored entity is the label, [M] bool. Among equal scores the lowest id is best.
    `chunk` (static) is how many rows a device scores at once; None for what suits it. InputError:
    it is below 1.
    """
    # A TPU writes no scores but the rounded probabilities of a chunk.
    chunk = chunk_rows(chunk, layout, on_tpu=16384)
    return _cross_entropy(vectors.astype(jnp.float32), labels, table, layout, chunk)


def sampled_softmax_cross_entropy(vectors, labels, table, layout: Layout, num_sampled: int, rng):
    """Estimates `softmax_cross_entropy` from the label and `num_sampled` (static) shared entities.

    One entity is drawn from each of `num_sampled` equal runs of ids, as ids are not sorted by
    frequency; with all sampled it is the full softmax. Every drawn entity but the label stands for
    its whole run (the logQ correction), so that the estimated sum has the right mean. The draws do
    not depend on the number of devices. A label is best among the entities drawn. InputError:
    num_sampled is not between 1 and num_entities.
    """
    if not 1 <= num_sampled <= layout.num_entities:
        raise InputError(f'{num_sampled} entities cannot be sampled from {layout.num_entities}')
    vectors = vectors.astype(jnp.float32)
    borders = np.arange(num_sampled + 1, dtype=np.int64) * layout.num_entities // num_sampled
    starts, ends = (part.astype(np.int32) for part in (borders[:-1], borders[1:]))
    sampled = jax.random.randint(rng, (num_sampled,), starts, ends)
    label_score = (vectors * lookup(table, labels, layout)).sum(axis=1)
    scores = vectors @ lookup(table, sampled, layout).T
    other = sampled != labels[:, None]
    better = jnp.where(
        sampled < labels[:, None], scores >= label_score[:, None], scores > label_score[:, None]
    )
    estimates = jnp.where(other, scores + np.log(np.diff(borders)).astype(np.float32), MASKED)
    lse = jnp.logaddexp(label_score, jax.nn.logsumexp(estimates, axis=1))
    linked = labels >= 0
    return jnp.where(linked, lse - label_score, 0.0), linked & ~(better & other).any(axis=1)


def _attend_shard(vectors, table, *, layout, chunk):
    """(softmax(E m)^T E [M, d_e], log-sum-exp [M], best entity [M]), the same on all devices."""
    count, dim = vectors.shape

    def step(carry, reference, ids, scores, rows):
        top, total, summed = carry
        weights = jnp.exp(scores - reference[:, None])
        return (
            jnp.maximum(top, scores.max(axis=1)),
            total + weights.sum(axis=1),
            summed + weights @ rows,
        )

    zeros = jnp.zeros(count, jnp.float32)
    start = zeros + MASKED, zeros, jnp.zeros((count, dim), jnp.float32)
    reference, (top, total, summed) = scan_with_reference(
        step, start, vectors, table, layout, chunk
    )
    total, top = lax.psum(total, ROW_AXES), lax.pmax(top, ROW_AXES)
    enough = (top - _ROUNDING * jnp.abs(top))[:, None]

    def find(best, start, ids, scores, rows):
        # Places are float32, as a TPU then finds the lowest while it multiplies.
        places = jnp.arange(len(ids), dtype=jnp.float32)
        place = jnp.where(scores >= enough, places, len(ids)).min(axis=1).astype(jnp.int32)
        return jnp.minimum(best, jnp.where(place < len(ids), ids[0] + place, _NO_ID))

    # To multiply once more is faster on a TPU than to read the scores again, and without use of it
    # left out.
    none = jnp.full(count, _NO_ID, jnp.int32)
    best = lax.pmin(scan_rows(find, none, vectors, table, layout, chunk), ROW_AXES)
    return lax.psum(summed, ROW_AXES) / total[:, None], reference + jnp.log(total), best


def _attend_backward_shard(
    vectors, lse, found, change, change_of_lse, table, *, layout, chunk, split
):
    """Gradients of sum(change * found) + sum(change_of_lse * lse): to vectors, and to own rows."""
    common = (change * found).sum(axis=1, keepdims=True) - change_of_lse[:, None]

    def step(carry, start, ids, scores, rows):
        to_vectors, to_table = carry
        probs = jnp.exp(scores - lse[:, None])
        to_scores = probs * (change @ rows.T - common)
        to_rows = probs.T @ change + to_scores.T @ vectors
        to_table = lax.dynamic_update_slice_in_dim(to_table, to_rows, start, 0)
        return to_vectors + to_scores @ rows, to_table

    start = jnp.zeros_like(vectors), lax.empty(table.shape, jnp.float32)
    to_vectors, to_table = scan_rows(step, start, vectors, table, layout, chunk)
    return lax.psum(to_vectors, ROW_AXES), sum_over_slices(to_table, split).astype(table.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _attend(vectors, table, layout, chunk):
    return _attend_forward(vectors, table, layout, chunk)[0]


def _attend_forward(vectors, table, layout, chunk):
    shard = functools.partial(_attend_shard, layout=layout, chunk=chunk)
    split = slice_spec(len(vectors), layout.mesh)
    found, lse, best = _over_rows(shard, layout, (split, ROWS), split)(vectors, table)
    return (found, lse, best), (vectors, table, found, lse)


def _attend_backward(layout, chunk, residuals, changes):
    vectors, table, found, lse = residuals
    change, change_of_lse, _ = changes
    split = slice_spec(len(vectors), layout.mesh)
    shard = functools.partial(_attend_backward_shard, layout=layout, chunk=chunk, split=split)
    run = _over_rows(shard, layout, (split, split, split, split, split, ROWS), (split, ROWS))
    return run(vectors, lse, found, change, change_of_lse, table)


_attend.defvjp(_attend_forward, _attend_backward)


def attend(vectors, table, layout: Layout, chunk: int | None = None) -> Attended:
    """Attends with each vector m [M, d_e] to all rows of E: softmax(E m)^T E, inside `jax.jit`.

    Whole on each device of a slice; `found` and `lse` have a gradient to the vectors and the table.
    Table and chunk as of `softmax_cross_entropy`.
    """
    vectors = vectors.astype(jnp.float32)
    return Attended(
        vectors, *_attend(vectors, table, layout, chunk_rows(chunk, layout, on_tpu=8192))
    )


def attended_cross_entropy(attended: Attended, labels, table, layout: Layout):
    """`softmax_cross_entropy` of vectors [M, d_e] that `attend` has been applied to.

    Only the scores of the labels are computed anew, exactly, whereas an accelerator may round the
    factors of the others: a loss near 0 may then be a little below it.
    """
    score = (attended.vectors * lookup(table, labels, layout)).sum(axis=1)
    return jnp.where(labels >= 0, attended.lse - score, 0.0), attended.best == labels


def _best_shard(vectors, table, *, layout, k, chunk):
    """(log-probabilities, entities) [M, k] of the best entities, the same on all devices."""

    def step(carry, start, ids, scores, rows):
        best, found, top, total = carry
        highest = jnp.maximum(top, scores.max(axis=1))
        total = total * jnp.exp(top - highest) + jnp.exp(scores - highest[:, None]).sum(axis=1)
        # Earlier chunks have lower ids, and stand first.
        found = jnp.concatenate([found, jnp.broadcast_to(ids, scores.shape)], axis=1)
        best, place = lax.top_k(jnp.concatenate([best, scores], axis=1), k)
        return best, jnp.take_along_axis(found, place, axis=1), highest, total

    shape = (len(vectors), k)
    zeros = jnp.zeros(len(vectors), jnp.float32)
    start = jnp.full(shape, -jnp.inf), jnp.full(shape, _NO_ID, jnp.int32), zeros + MASKED, zeros
    best, found, top, total = scan_rows(step, start, vectors, table, layout, chunk)
    highest = lax.pmax(top, ROW_AXES)
    lse = highest + jnp.log(lax.psum(total * jnp.exp(top - highest), ROW_AXES))
    best, found = (lax.all_gather(x, ROW_AXES, axis=1, tiled=True) for x in (best, found))
    best, place = lax.top_k(best, k)
    return best - lse[:, None], jnp.take_along_axis(found, place, axis=1)


def best(vectors, table, layout: Layout, k: int, chunk: int = DEFAULT_CHUNK):
    """The k most probable entities of vectors m, best first: log softmax(E m) and ids, [M, k].

    float32 and int32, without gradient, inside `jax.jit`. Among equal scores the lowest id is best.
    k, at most num_entities, and `chunk`, rows that a device scores at once, are static.
    """
    split = slice_spec(len(vectors), layout.mesh)
    shard = functools.partial(_best_shard, layout=layout, k=k, chunk=chunk)
    run = _over_rows(shard, layout, (split, ROWS), split)
    return run(lax.stop_gradient(vectors).astype(jnp.float32), lax.stop_gradient(table))
