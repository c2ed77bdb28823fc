"""Losses over relation and entity embeddings, as pure functions of arrays."""

import jax
import jax.numpy as jnp

from opql_jax.parallel import entity_table as table_lib

# Large and finite: a masked logit must vanish from a softmax, and inf - inf would be NaN.
MASKED = -1e30
# Score above which `alignment_loss` takes a pair to answer a question.
_FACT_THRESHOLD = 4.0


def mean_where(values, weights):
    """Weighted mean; 0, not NaN, where every weight is 0."""
    weights = weights.astype(jnp.float32)
    return (values * weights).sum() / jnp.maximum(weights.sum(), 1.0)


def best_is(right, scores):
    """Whether the best-scored column of each row is `right`: [n] bool; both are [n, columns]."""
    return jnp.take_along_axis(right, scores.argmax(axis=1)[:, None], axis=1)[:, 0]


def relation_loss(relations, topic, target, anchor):
    """L_rel: mentions of one ordered pair find each other in the batch (paper §2.2, eq. 2).

    Softmax cross-entropy over inner products of `relations` [n, d_r]. All rows of the batch, on all
    devices, are candidates for every anchor; other mentions of its own pair share the target mass
    evenly. `topic` and `target` are [n] int32, a topic of -1 marks padding, and `anchor` [n] bool
    the rows whose loss counts. Returns (loss, share of anchors whose best-scored row is a
    positive), float32 scalars.
    """
    relations = relations.astype(jnp.float32)
    valid = topic >= 0
    others = ~jnp.eye(topic.shape[0], dtype=bool)
    candidates = valid[None, :] & others
    same_topic, same_target = (x[:, None] == x[None, :] for x in (topic, target))
    positives = same_topic & same_target & candidates
    count = positives.sum(axis=1)
    log_probs = jax.nn.log_softmax(jnp.where(candidates, relations @ relations.T, MASKED), axis=1)
    loss = -jnp.where(positives, log_probs, 0.0).sum(axis=1) / jnp.maximum(count, 1)
    counted = anchor & valid & (count > 0)
    return mean_where(loss, counted), mean_where(best_is(positives, log_probs), counted)


def alignment_loss(questions, question_topic, answers, relations, topic, target, fact_weight=0.0):
    """Distant supervision: of the mentions of a question's topic those with an answer score best.

    Mentions of other topics may state the same relation, and are no candidates. The mass of all
    positives counts as one, as not every mention of a pair states the relation that is asked for
    (paper §3.1.3, the finetuned memory).

    A second term, weighted by the static `fact_weight`, judges each mention by itself: its score
    should be above a threshold if its target is an answer, else below, positives and negatives of a
    question weighing the same. So what a question teaches about a pair serves questions about its
    other side. It assumes that most mentions of a positive pair state the relation.

    Questions are [q, d_r], [q] and [q, a] int32, -1 in unused slots; mentions as of
    `relation_loss`. Returns (loss, accuracy), float32 scalars over the questions with a positive
    and a negative, the second term over all with a positive.
    """
    candidates = (question_topic[:, None] == topic[None, :]) & (topic >= 0)[None, :]
    positives = candidates & (answers[:, :, None] == target[None, None, :]).any(axis=1)
    logits = questions.astype(jnp.float32) @ relations.astype(jnp.float32).T
    log_all = jax.nn.logsumexp(jnp.where(candidates, logits, MASKED), axis=1)
    log_positive = jax.nn.logsumexp(jnp.where(positives, logits, MASKED), axis=1)
    counted = positives.any(axis=1) & (candidates & ~positives).any(axis=1)
    correct = best_is(positives, jnp.where(candidates, logits, MASKED))
    ordering = mean_where(jnp.where(counted, log_all - log_positive, 0.0), counted)
    if not fact_weight:
        return ordering, mean_where(correct, counted)
    negatives = candidates & ~positives & positives.any(axis=1, keepdims=True)
    per_question = lambda members: members / jnp.maximum(members.sum(axis=1, keepdims=True), 1)
    facts = mean_where(jax.nn.softplus(_FACT_THRESHOLD - logits), per_question(positives))
    others = mean_where(jax.nn.softplus(logits - _FACT_THRESHOLD), per_question(negatives))
    return ordering + fact_weight * (facts + others), mean_where(correct, counted)


def label_loss(questions, question_label, relations, label):
    """Questions find their label's pairs among the batch's; these pairs' mass counts as one.

    Of questions [q, d_r] and pairs [n, d_r], with labels [q] and [n] int32: questions with -1 are
    unused, pairs with -1 answer nothing, and those below are unused. Returns (loss, accuracy),
    float32 scalars over the questions that a pair answers.
    """
    positives = (question_label[:, None] == label[None, :]) & (question_label >= 0)[:, None]
    logits = jnp.where(
        label >= -1, questions.astype(jnp.float32) @ relations.astype(jnp.float32).T, MASKED
    )
    loss = jax.nn.logsumexp(logits, axis=1) - jax.nn.logsumexp(
        jnp.where(positives, logits, MASKED), axis=1
    )
    counted, correct = positives.any(axis=1), best_is(positives, logits)
    return mean_where(jnp.where(counted, loss, 0.0), counted), mean_where(correct, counted)


def entity_loss(mentions, entities, entity_table, layout, num_sampled=0, rng=None):
    """L_el: a mention embedding retrieves its entity among all entities (paper §2.3, eq. 3).

    `mentions` are [..., d_e] float, `W_e^T h_start`, or their `Attended` if they have attended over
    E already; `entities` [...] int32, -1 where there is none; E is placed as the Layout says. The
    softmax is estimated from `num_sampled` entities, drawn by the key `rng`; 0 is all, as of an
    `Attended`. Returns (loss, accuracy), float32 scalars over the linked mentions; accuracy is the
    share whose entity scores best: of all entities, or of those drawn.
    """
    leading, entities = entities.ndim, entities.reshape(-1)
    mentions = jax.tree.map(lambda x: x.reshape(-1, *x.shape[leading:]), mentions)
    if isinstance(mentions, table_lib.Attended):
        loss, correct = table_lib.attended_cross_entropy(mentions, entities, entity_table, layout)
    elif num_sampled:
        loss, correct = table_lib.sampled_softmax_cross_entropy(
            mentions, entities, entity_table, layout, num_sampled, rng
        )
    else:
        loss, correct = table_lib.softmax_cross_entropy(mentions, entities, entity_table, layout)
    return mean_where(loss, entities >= 0), mean_where(correct, entities >= 0)


def retrieval_loss(log_probs, targets, answers, used, absent, k):
    """L_re: the mass goes to entries that lead to an answer, or to null if there is none (eq. 8).

    `log_probs` are [n T, 1 + k], of null and the retrieved entries; `targets` [n T, k] and
    `answers` [n, A], -1 in unused slots; `used` [n, T] says which slots hold a topic, `absent` [n,
    T] for which null is right. The search found the first `k` (static) entries; others are gold.
    Returns the mean loss over topics for which null or some entry is right, and metrics:
    `reachable`, the share of all topics for which null is right or the search found a right entry;
    `retrieval_accuracy`, the share of counted topics whose best is right; `null_absent`,
    `null_present`: the mean mass of null where it is right, and where an entry is.
    """
    slots = used.shape[1]
    answers, used, absent = jnp.repeat(answers, slots, axis=0), used.reshape(-1), absent.reshape(-1)
    right = (targets[:, :, None] == answers[:, None, :]).any(axis=-1)
    right &= (targets >= 0) & ~absent[:, None]
    right = jnp.concatenate([absent[:, None], right], axis=1)
    counted = used & right.any(axis=1)
    log_right = jax.nn.logsumexp(jnp.where(right, log_probs, MASKED), axis=1)
    null = jnp.exp(log_probs[:, 0])
    return mean_where(jnp.where(counted, -log_right, 0.0), counted), {
        'reachable': mean_where(right[:, : 1 + k].any(axis=1), used),
        'retrieval_accuracy': mean_where(best_is(right, log_probs), counted),
        'null_absent': mean_where(null, used & absent),
        'null_present': mean_where(null, counted & ~absent),
    }
