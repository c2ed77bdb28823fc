"""The best k entries of the whole memory, whose rows lie over all devices of a mesh.

    score_i = query_e . E[topic_i] + query_r . r_i

Each device scores its rows chunk by chunk and keeps a full k of them: topic-sorted rows put all good entries of a query
on few devices, so that k/D a device would lose them. Devices exchange (score, id) only. The kept entries are then scored
again with gradient by the device that owns them, and what is summed over devices is scores [B, k] and embeddings
[B, d_e], never keys [B, k, d]. Ties go to the lowest entry id.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from opql_jax.corpus.errors import InputError
from opql_jax.memory.follow import Followed, aggregate, masked_softmax

MODES = ('exact', 'approx', 'int8')
MAX_SCORE_BYTES = 1 << 28  # of the score buffer [B, chunk]

_DEFAULT_CHUNK = 8192
# Entries that share a bucket in 'approx': with 64 k buckets two of the best k meet in one for about 1 in 128 of them.
_BUCKETS_PER_K = 64
_PRECISION = lax.Precision.HIGHEST


class ShardedMemory(NamedTuple):
    """Rows of a memory over the devices of a mesh; the entry id is the row number. Made by `shard_memory`.

    Attributes:
        topic: [N'] int32; -1 in padding and in deleted entries, which are never found.
        target: [N'] int32.
        relations: [N', d_r] float32, bfloat16 or float16.
        codes: [N', d_r] int8, the relations by row in units of `scales`; None unless made for mode 'int8'.
        scales: [N'] float32, or None.
    """

    topic: jax.Array
    target: jax.Array
    relations: jax.Array
    codes: jax.Array | None = None
    scales: jax.Array | None = None


class Retrieved(NamedTuple):
    """What a search of the whole memory found.

    Attributes:
        followed: Followed, the targets and the evidence.
        scores: [B, k] float32 of `followed.entry_ids`, with gradient; -inf in unused slots.
        targets: [B, k] int32 of `followed.entry_ids`; -1 in unused slots.
        embedding: [B, d_e] float32, e_Y: the embeddings of the targets in the proportions of their weights.
    """

    followed: Followed
    scores: jax.Array
    targets: jax.Array
    embedding: jax.Array


def shard_memory(topic, target, relations, mesh: Mesh, alive=None, int8: bool = False) -> ShardedMemory:
    """Places a memory on a mesh, rows split over all its devices.

    Args:
        topic, target: [N] int32.
        relations: [N, d_r].
        mesh: as `parallel.mesh.make_mesh` makes them.
        alive: [N] bool, False for deleted entries; None if none is deleted.
        int8: also make what mode 'int8' reads.

    Raises:
        InputError: the arrays differ in length, or there is no row.
    """
    topic, target, relations = np.asarray(topic, np.int32), np.asarray(target, np.int32), np.asarray(relations)
    lengths = [len(topic), len(target), len(relations)] + ([] if alive is None else [len(alive)])
    if min(lengths) < 1 or len(set(lengths)) > 1:
        raise InputError(f'a memory needs at least one row and columns of one length, not of {lengths}')
    if alive is not None:
        topic = np.where(alive, topic, -1)
    codes = scales = None
    if int8:
        scales = np.abs(relations).max(axis=1).astype(np.float32) / 127
        unit = np.where(scales > 0, scales, 1)
        codes = np.rint(relations.astype(np.float32) / unit[:, None]).astype(np.int8)
    padding = -len(topic) % mesh.size

    def place(array, fill=0):
        if array is None:
            return None
        if padding:
            array = np.concatenate([array, np.full((padding, *array.shape[1:]), fill, array.dtype)])
        return jax.device_put(array, NamedSharding(mesh, P(mesh.axis_names)))

    return ShardedMemory(place(topic, -1), place(target), place(relations), place(codes), place(scales))


def _top_of(scores, k):
    """Exact `lax.top_k` [B, min(k, C)] of [B, C], ties to the lowest place, several times as fast on a CPU.

    The k buckets of neighbours with the highest maxima, lower buckets first, contain the best k: an entry of any other
    bucket has k better ones, one in each of those. So one cheap pass takes the maxima and `top_k` sees few numbers.
    """
    rows, width = scores.shape
    size = int((width / k) ** 0.5)
    if size < 4:
        return lax.top_k(scores, min(k, width))
    padded = jnp.pad(scores, ((0, 0), (0, -width % size)), constant_values=-jnp.inf).reshape(rows, -1, size)
    _, buckets = lax.top_k(jnp.max(padded, axis=-1), k)
    buckets = jnp.sort(buckets, axis=-1)  # in order of place, so that ties are again met in it
    inside = jnp.take_along_axis(padded, buckets[:, :, None], axis=1).reshape(rows, -1)
    best, found = lax.top_k(inside, k)
    places = jnp.take_along_axis(buckets, found // size, axis=1) * size + found % size
    # A place in the padding can be kept only with -inf, which marks an unused slot.
    return best, jnp.minimum(places, width - 1)


def _approximate_top_of(scores, k, total, on_tpu):
    """About the best k of [B, C]; total: number of rows of the whole search."""
    rows, width = scores.shape
    buckets = _BUCKETS_PER_K * k
    if width <= buckets:
        return _top_of(scores, k)
    if on_tpu:
        return lax.approx_max_k(scores, k, recall_target=0.99, reduction_input_size_override=max(total, width))
    # Strided: neighbours have the same topic and similar scores, so buckets of neighbours would hide one another.
    padded = jnp.pad(scores, ((0, 0), (0, -width % buckets)), constant_values=-jnp.inf).reshape(rows, -1, buckets)
    best, bucket = _top_of(jnp.max(padded, axis=1), k)
    member = jnp.take_along_axis(jnp.argmax(padded, axis=1), bucket, axis=1)
    return best, jnp.minimum(member * buckets + bucket, width - 1)


def _products(queries, keys, dtype):
    """[B, C] float32 products of [B, d] and [C, d], computed in `dtype` with float32 sums."""
    precision = _PRECISION if dtype == jnp.float32 else None
    return lax.dot_general(
        queries.astype(dtype), keys.astype(dtype), (((1,), (1,)), ((), ())), precision, preferred_element_type=jnp.float32
    )


def _own_scores(query_e, query_r, rows, memory, entity_table):
    """Exact scores [B, k] of this device's rows [B, k]."""
    entities = entity_table[jnp.maximum(memory.topic[rows], 0)].astype(jnp.float32)
    score = jnp.einsum('bd,bkd->bk', query_e, entities, precision=_PRECISION)
    return score + jnp.einsum('bd,bkd->bk', query_r, memory.relations[rows].astype(jnp.float32), precision=_PRECISION)


def _search_shard(query_e, query_r, memory, entity_table, member, *, axes, k, chunk, mode, dtype, total, on_tpu):
    """The search on one device: scores and ids [B, k] of the best of all devices."""
    rows, batch = memory.topic.shape[0], query_e.shape[0]
    chunk = min(chunk, rows)
    rough = mode == 'int8' or dtype != jnp.float32
    keep = 2 * k if rough else k

    def step(carry, number):
        best, ids = carry
        start = jnp.minimum(number * chunk, rows - chunk)  # the last chunk overlaps the one before
        row = start + jnp.arange(chunk, dtype=jnp.int32)
        topic = lax.dynamic_slice_in_dim(memory.topic, start, chunk)
        used = ((topic >= 0) & (row >= number * chunk))[None]
        topic = jnp.maximum(topic, 0)
        if member is not None:
            used &= member[:, topic]
        if mode == 'int8':
            score = _products(query_r, lax.dynamic_slice_in_dim(memory.codes, start, chunk), dtype)
            score *= lax.dynamic_slice_in_dim(memory.scales, start, chunk)
        else:
            score = _products(query_r, lax.dynamic_slice_in_dim(memory.relations, start, chunk), dtype)
        score += _products(query_e, entity_table[topic], dtype)
        # -0.0 ranks below 0.0 in `top_k`, yet they are equal scores.
        score = jnp.where(used, jnp.where(score == 0, 0.0, score), -jnp.inf)
        top = functools.partial(_approximate_top_of, total=total, on_tpu=on_tpu) if mode == 'approx' else _top_of
        score, place = top(score, keep)
        # What was kept stands before the new: its ids are lower, so ties still go to the lowest id.
        best, found = lax.top_k(jnp.concatenate([best, score], axis=1), keep)
        return (best, jnp.take_along_axis(jnp.concatenate([ids, start + place], axis=1), found, axis=1)), None

    empty = jnp.full((batch, keep), -jnp.inf, jnp.float32), jnp.zeros((batch, keep), jnp.int32)
    (best, ids), _ = lax.scan(step, empty, jnp.arange(-(-rows // chunk), dtype=jnp.int32))
    if rough:
        score = _own_scores(query_e, query_r, ids, memory, entity_table)
        score = jnp.where(best == -jnp.inf, jnp.inf, -jnp.where(score == 0, 0.0, score))
        score, ids = lax.sort((score, ids), num_keys=2)
        best, ids = -score[:, :k], ids[:, :k]
    ids += lax.axis_index(axes) * rows
    # Devices hold rows in rising order, so the order of places is again the order of ids.
    best, ids = (lax.all_gather(part, axes, axis=1, tiled=True) for part in (best, ids))
    best, found = lax.top_k(best, k)
    return best, jnp.where(best == -jnp.inf, -1, jnp.take_along_axis(ids, found, axis=1))


def _specs(memory, axes):
    return jax.tree.map(lambda _: P(axes), memory)


def topk(query_e, query_r, memory, entity_table, mesh, k, chunk=None, mode='exact', dtype=jnp.float32, member=None):
    """The best k entries of the memory for each query, without gradient. Call it inside `jax.jit`.

    Args:
        query_e: [B, d_e] float32, the entity part of the query (W_k folded in).
        query_r: [B, d_r] float32, the relation part.
        memory: ShardedMemory over `mesh`.
        entity_table: [n, d_e], replicated.
        mesh: the mesh of `memory`.
        k: entries to keep (static).
        chunk: rows a step (static), by default as many as serve a CPU's cache; less if [B, chunk] scores would take more
            than MAX_SCORE_BYTES. But for 'approx', the result depends on it, and on the
            number of devices, only where scores are equal up to rounding.
        mode: 'exact'; 'approx', which may miss an entry where a better one shares its bucket; 'int8', which chooses 2 k
            a device by the int8 relations and the best k of them exactly.
        dtype: type of the products. With any but float32 each device chooses 2 k and the best k of them exactly.
        member: [B, n] bool, the topics each query may find entries of; None for all.

    Returns:
        scores [B, k] float32 in falling order, -inf in unused slots, and entry ids [B, k] int32, -1 in unused slots.

    Raises:
        InputError: an unknown mode, k or chunk below 1, or mode 'int8' on a memory made without it.
    """
    if mode not in MODES:
        raise InputError(f'mode must be one of {", ".join(MODES)}, not {mode!r}')
    chunk = _DEFAULT_CHUNK if chunk is None else chunk
    if k < 1 or chunk < 1:
        raise InputError(f'k and chunk must be at least 1, not k={k}, chunk={chunk}')
    if mode == 'int8' and memory.codes is None:
        raise InputError("mode 'int8' needs a memory made by shard_memory(..., int8=True)")
    chunk = max(1, min(chunk, MAX_SCORE_BYTES // (4 * query_e.shape[0])))
    axes = mesh.axis_names
    search = functools.partial(
        _search_shard, axes=axes, k=k, chunk=chunk, mode=mode, dtype=dtype, total=memory.topic.shape[0],
        on_tpu=mesh.devices.flat[0].platform == 'tpu',
    )  # fmt: skip
    arguments = lax.stop_gradient((query_e, query_r, memory, entity_table))
    specs = (P(), P(), _specs(memory, axes), P(), P())
    # Equal on all devices after the gathering, which the check cannot see.
    return jax.shard_map(search, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)(*arguments, member)


def _owned(entry_ids, rows, axes):
    """This device's row numbers [B, k] of the entries, 0 for those of others, and which are its own."""
    row = entry_ids - lax.axis_index(axes) * rows
    own = (entry_ids >= 0) & (row >= 0) & (row < rows)
    return jnp.where(own, row, 0), own


def rescore(query_e, query_r, entry_ids, memory, entity_table, mesh):
    """Scores of chosen entries by their owners, with gradient to the queries, the relations and the entity table.

    Args:
        entry_ids: [B, k] int32; -1 in unused slots.
        query_e, query_r, memory, entity_table, mesh: as in `topk`.

    Returns:
        scores [B, k] float32, 0 in unused slots, and targets [B, k] int32, -1 in unused slots.
    """
    axes = mesh.axis_names

    def score(query_e, query_r, entry_ids, memory, entity_table):
        row, own = _owned(entry_ids, memory.topic.shape[0], axes)
        scores = jnp.where(own, _own_scores(query_e, query_r, row, memory, entity_table), 0.0)
        targets = jnp.where(own, memory.target[row] + 1, 0)
        return lax.psum(scores, axes), lax.psum(targets, axes) - 1

    specs = (P(), P(), P(), _specs(memory, axes), P())
    return jax.shard_map(score, mesh=mesh, in_specs=specs, out_specs=P())(query_e, query_r, entry_ids, memory, entity_table)


def target_embedding(entry_ids, beta, memory, entity_table, mesh):
    """e_Y [B, d_e] float32: the embeddings of the entries' targets, weighted by `beta` [B, k], each summed by its owner."""
    axes = mesh.axis_names

    def embed(entry_ids, beta, target, entity_table):
        row, own = _owned(entry_ids, target.shape[0], axes)
        embeddings = entity_table[target[row]].astype(jnp.float32)
        return lax.psum(jnp.einsum('bk,bkd->bd', jnp.where(own, beta, 0.0), embeddings, precision=_PRECISION), axes)

    specs = (P(), P(), P(axes), P())
    return jax.shard_map(embed, mesh=mesh, in_specs=specs, out_specs=P())(entry_ids, beta, memory.target, entity_table)


def retrieve(query_e, query_r, memory, entity_table, mesh, k, chunk=None, mode='exact', dtype=jnp.float32, member=None):
    """One retrieval from the whole memory. Args as in `topk`.

    Returns:
        Retrieved, with gradient to the queries, the relations and the entity table.
    """
    _, entry_ids = topk(query_e, query_r, memory, entity_table, mesh, k, chunk, mode, dtype, member)
    scores, targets = rescore(query_e, query_r, entry_ids, memory, entity_table, mesh)
    valid = entry_ids >= 0
    beta = masked_softmax(scores, valid)
    embedding = target_embedding(entry_ids, beta, memory, entity_table, mesh)
    followed = Followed(*aggregate(targets, beta), entry_ids, beta)
    return Retrieved(followed, jnp.where(valid, scores, -jnp.inf), targets, embedding)
