"""Losses over relation and entity embeddings, as pure functions of arrays (paper §3)."""

import jax
import jax.numpy as jnp

from opql_jax.parallel import entity_table as table_lib

# Large and finite: a masked logit must vanish from a softmax without making the NaN that inf - inf would.
MASKED = -1e30
# Of the score of a pair that answers a question.
_THRESHOLD = 4.0


def _mean(values, weights):
    """Weighted mean that is 0, not NaN, where every weight is 0."""
    weights = weights.astype(jnp.float32)
    return (values * weights).sum() / jnp.maximum(weights.sum(), 1.0)


def relation_loss(relations, topic, target, anchor):
    """L_rel: mentions of the same ordered pair find each other among all mentions of the batch (paper §3.1).

    Softmax cross-entropy over inner products. All rows of the batch are candidates for every anchor, so a batch that is
    sharded over devices gives in-batch negatives across all of them. Another mention of the anchor's own pair is never
    a negative: positives share the target mass evenly.

    Args:
        relations: [n, d_r] float, relation embeddings.
        topic: [n] int32, topic entity of each row; -1 marks padding.
        target: [n] int32, target entity of each row.
        anchor: [n] bool, rows whose loss counts.

    Returns:
        (loss, accuracy), float32 scalars; accuracy is the share of anchors whose best-scored row is a positive.
    """
    relations = relations.astype(jnp.float32)
    valid = topic >= 0
    others = ~jnp.eye(topic.shape[0], dtype=bool)
    candidates = valid[None, :] & others
    positives = (topic[:, None] == topic[None, :]) & (target[:, None] == target[None, :]) & candidates
    count = positives.sum(axis=1)
    log_probs = jax.nn.log_softmax(jnp.where(candidates, relations @ relations.T, MASKED), axis=1)
    loss = -jnp.where(positives, log_probs, 0.0).sum(axis=1) / jnp.maximum(count, 1)
    counted = anchor & valid & (count > 0)
    best = jnp.take_along_axis(positives, log_probs.argmax(axis=1)[:, None], axis=1)[:, 0]
    return _mean(loss, counted), _mean(best, counted)


def alignment_loss(questions, question_topic, answers, relations, topic, target, facts=0.0):
    """Distant supervision of 1-hop questions: among the mentions of a question's topic, those whose target is an answer win.

    Only mentions of the question's own topic are candidates: another topic's mention may well state the same relation,
    and would be a false negative. The probability mass of all positives counts as one, because a pair's mentions need
    not all state the relation that was asked for (paper §4.1, finetuned memory).

    That orders the mentions of one topic. A second loss, of the weight `facts`, asks of each by itself to score above a threshold if its
    target is an answer, and below if not, positives and negatives of a question weighing the same: whether a pair is a fact is
    then no matter of what else its topic is mentioned with, and what one question tells of it serves questions about its other
    side. It supposes that most mentions of a positive pair state the relation.

    Args:
        questions: [q, d_r] float, relation embeddings of the questions.
        question_topic: [q] int32, -1 marks padding.
        answers: [q, a] int32, padded by -1.
        relations, topic, target: [n, d_r], [n], [n]: the encoded mentions, as in `relation_loss`.
        facts: weight of the second loss (static); 0 leaves it out.

    Returns:
        (loss, accuracy), float32 scalars over the questions that have a positive and a negative; the second loss is over all
        that have a positive.
    """
    candidates = (question_topic[:, None] == topic[None, :]) & (topic >= 0)[None, :]
    positives = candidates & (answers[:, :, None] == target[None, None, :]).any(axis=1)
    logits = questions.astype(jnp.float32) @ relations.astype(jnp.float32).T
    everything = jax.nn.logsumexp(jnp.where(candidates, logits, MASKED), axis=1)
    right = jax.nn.logsumexp(jnp.where(positives, logits, MASKED), axis=1)
    counted = positives.any(axis=1) & (candidates & ~positives).any(axis=1)
    best = jnp.where(candidates, logits, MASKED).argmax(axis=1)
    correct = jnp.take_along_axis(positives, best[:, None], axis=1)[:, 0]
    ordering = _mean(jnp.where(counted, everything - right, 0.0), counted)
    if not facts:
        return ordering, _mean(correct, counted)
    negatives = candidates & ~positives & positives.any(axis=1, keepdims=True)
    share = lambda of: of / jnp.maximum(of.sum(axis=1, keepdims=True), 1)
    above = _mean(jax.nn.softplus(_THRESHOLD - logits), share(positives))
    below = _mean(jax.nn.softplus(logits - _THRESHOLD), share(negatives))
    return ordering + facts * (above + below), _mean(correct, counted)


def entity_loss(mentions, entities, entity_table, layout, num_sampled=0, rng=None):
    """L_el: a mention's vector retrieves its entity among all entities (paper §3.2).

    Args:
        mentions: [..., d_e] float, mention vectors `W_e^T h_start`; or the `Attended` of them, where that is at hand.
        entities: [...] int32, the linked entity; -1 where there is none.
        entity_table: E, placed as `layout` says.
        layout: parallel.entity_table.Layout.
        num_sampled: entities drawn to estimate the softmax from; 0 for the softmax over all, which an `Attended` always has.
        rng: key of the draws.

    Returns:
        (loss, accuracy), float32 scalars over the linked mentions; accuracy is the share whose entity scores best, of those
        drawn only if they are.
    """
    leading, entities = entities.ndim, entities.reshape(-1)
    mentions = jax.tree.map(lambda x: x.reshape(-1, *x.shape[leading:]), mentions)
    if isinstance(mentions, table_lib.Attended):
        found = table_lib.attended_cross_entropy(mentions, entities, entity_table, layout)
    elif num_sampled:
        found = table_lib.sampled_softmax_cross_entropy(mentions, entities, entity_table, layout, num_sampled, rng)
    else:
        found = table_lib.softmax_cross_entropy(mentions, entities, entity_table, layout)
    loss, correct = found
    return _mean(loss, entities >= 0), _mean(correct, entities >= 0)


def retrieval_loss(log_probs, targets, answers, used, absent, k):
    """L_re: entries that lead to an answer get the mass, or null does where the memory is known to have none (paper section 3.3).

    Args:
        log_probs: [n T, 1 + k] float32, of null and of the entries retrieved.
        targets: [n T, k] int32, of the entries; -1 in unused slots.
        answers: [n, A] int32, -1 in unused slots.
        used: [n, T] bool, topics there are.
        absent: [n, T] bool, topics for which null is right.
        k: entries that the search found (static); those after them are gold ones.

    Returns:
        (loss, metrics): the mean over topics for which null is right or some entry is; others teach nothing. `retrieval_accuracy`:
        the share of these whose best is right. `reachable`: the share of all topics for which null is right or the search found an
        entry that is.
        `null_absent`, `null_present`: the mean mass of null where it is right, and where an entry is.
    """
    places = used.shape[1]
    answers, used, absent = jnp.repeat(answers, places, axis=0), used.reshape(-1), absent.reshape(-1)
    right = (targets[:, :, None] == answers[:, None, :]).any(axis=-1) & (targets >= 0) & ~absent[:, None]
    right = jnp.concatenate([absent[:, None], right], axis=1)
    counted = used & right.any(axis=1)
    mass = jax.nn.logsumexp(jnp.where(right, log_probs, MASKED), axis=1)
    best = jnp.take_along_axis(right, log_probs.argmax(axis=1)[:, None], axis=1)[:, 0]
    null = jnp.exp(log_probs[:, 0])
    return _mean(jnp.where(counted, -mass, 0.0), counted), {
        'reachable': _mean(right[:, : 1 + k].any(axis=1), used),
        'retrieval_accuracy': _mean(best, counted),
        'null_absent': _mean(null, used & absent),
        'null_present': _mean(null, counted & ~absent),
    }
