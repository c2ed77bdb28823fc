"""Scores of vectors with all rows of a table split over devices, chunk by chunk.

For use inside `jax.shard_map`; no array [vectors, rows] exists.
"""

import jax.numpy as jnp
from jax import lax

from opql_jax.core.errors import InputError
from opql_jax.parallel.mesh import ROW_AXES, platform_of, row_devices

# Scores [512, 4096] stay in a CPU's cache: 0.7 times the time of all 43,000 at once, and of 1024 or
# 16384 0.8 times.
DEFAULT_CHUNK = 4096

# Large and finite: a device with nothing but padding must add nothing, and inf - inf is NaN.
MASKED = -1e30

# Rows whose best score is a reference for the exponentials of all, and how far float32 lets scores
# be from it.
_FEW, _FAR = 128, 60.0


def chunk_rows(chunk: int | None, layout, on_tpu: int) -> int:
    """Rows a device scores at once: `chunk`, or what suits a CPU, or `on_tpu` elsewhere.

    To a TPU each operation of a chunk costs a microsecond. InputError below 1.
    """
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
