"""N-way K-shot classification by nearest neighbours: how embeddings tell relations apart.

An episode draws N relations and, of each, K support sentences and one query, all with different
texts. A query is assigned the relation whose support sentences are on average most similar to it,
by the cosine of embeddings centred at their overall mean: L_rel leaves the origin open, as moving
all candidates does not change a softmax over inner products.
"""

import functools
import itertools

import jax.numpy as jnp
import numpy as np

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError, check_choice
from opql_jax.corpus.json_lines import write_json
from opql_jax.data import markup
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.datasets.labelled_sentences import LabelledSentence, read_labelled
from opql_jax.kb.trained.question_sets import as_tuple
from opql_jax.models import bert, bulk_encoding
from opql_jax.models.encoder import PAD_ID
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.training import model_config

EMBEDDINGS = ('pair', 'relation', 'relation masked', 'mean', 'mean masked')


def evaluate_fewshot(
    *,
    sentences: str,
    model_dir: str,
    output_dir: str,
    embedding: str = 'relation',
    relations: str | tuple[str, ...] = (),
    ways: int = 5,
    shots: int = 1,
    episodes: int = 2000,
    seed: int = 0,
    step: int | None = None,
    dry_run: bool = False,
) -> dict:
    """Scores the embeddings of one model on one file; writes metrics.json and prints the accuracy.

    Args:
        sentences: FewRel's JSON or JSON Lines, see `datasets.labelled_sentences`.
        model_dir: workdir of a training run; for 'pair' a released encoder, or 'default'; for the
            baselines also a Hugging Face BERT folder, or 'minilm'.
        output_dir: receives metrics.json.
        embedding: 'pair', the relation that a released encoder reads off the two mentions;
            'relation', r of the sentence with [R1] and [R2] after its two mentions, or 'relation
            masked', with [ENT] in their place, as pretraining has them; or a baseline: 'mean', the
            mean of the last layer over the plain sentence, and 'mean masked', over the one with
            [ENT].
        relations: those whose sentences count; all if empty.
        ways, shots: N and K.
        episodes: each has N queries.
        seed: of the episodes.
        step: checkpoint to use; the newest if None.
        dry_run: only counts.

    Returns:
        `accuracy`, `standard_error` (over episodes), `relations`, `sentences`, `left_out` ({reason:
        sentences}), and the arguments that a score depends on.

    Raises:
        InputError: a bad file, model or argument, fewer than N relations with K + 1 different
            texts, or another process writes there.
    """
    check_choice('embedding', embedding, EMBEDDINGS)
    relations = as_tuple(relations)
    found, left_out = read_labelled(sentences)
    if missing := set(relations) - {s.relation for s in found}:
        raise InputError(f'relations: {sentences} has no sentence of {", ".join(sorted(missing))}')
    if relations:
        found = [s for s in found if s.relation in relations]
    read_whole, embed_all, longest = _model(model_dir, step, embedding)
    fits = read_whole(found)
    if too_long := fits.count(False):
        left_out[f'more than {longest} tokens'] = too_long
    found = list(itertools.compress(found, fits))
    groups = group_by_relation([s.relation for s in found], [s.text for s in found], shots + 1)
    if alone := len(found) - sum(len(texts) for relation in groups for texts in relation):
        left_out[f'of a relation with fewer than {shots + 1} texts'] = alone
    if ways < 2 or shots < 1 or episodes < 2 or len(groups) < ways:
        raise InputError(
            f'{sentences}: {ways} ways, {shots} shots and {episodes} episodes need at least 2, 1 '
            f'and 2, and as many relations with {shots + 1} different texts as ways; there are '
            f'{len(groups)} ({left_out})'
        )
    settings = {
        'relations': len(groups),
        'sentences': sum(len(texts) for relation in groups for texts in relation),
        'left_out': left_out,
        'embedding': embedding,
        'ways': ways,
        'shots': shots,
        'episodes': episodes,
        'seed': seed,
    }
    if dry_run:
        print(f'# {settings}')
        return {}
    with locks.writer(output_dir):
        vectors = embed_all(found)
        accuracies = episode_accuracies(vectors, groups, ways, shots, episodes, seed)
        error = accuracies.std(ddof=1) / np.sqrt(episodes)
        out = {'accuracy': float(accuracies.mean()), 'standard_error': float(error), **settings}
        write_json(files.path(output_dir) / 'metrics.json', out)
    print(
        f'{ways}-way {shots}-shot accuracy {out["accuracy"]:.4f} +- {error:.4f} ({episodes:,} '
        f'episodes, {len(groups)} relations, {settings["sentences"]:,} sentences)'
    )
    for reason, count in left_out.items():
        print(f'left out: {count:,} sentences, {reason}')
    return out


def _model(model_dir, step, embedding):
    """Which sentences a model reads whole, their vectors [n, d], and its limit in tokens."""
    if embedding == 'pair':
        text_encoder = TextEncoder.load(model_dir)
        encode = lambda found: text_encoder.encode_pairs(*list(zip(*found))[:3])
        return lambda found: [True] * len(found), encode, None
    encoder, params, tokenizer = _open(model_dir, step, embedding)
    special, read = tokenizer_lib.special_ids(tokenizer), functools.partial(tokenise, tokenizer)
    longest = min(max(bulk_encoding.LENGTHS), encoder.max_length)
    return (
        lambda found: [len(p.tokens) + markup.MARKUP_ROOM <= longest for p in read(found)],
        lambda found: embed(encoder, params, read(found), special, embedding),
        longest,
    )


def _open(model_dir, step, embedding):
    """(encoder, its parameters, tokenizer) from a workdir or, for baselines, a BERT folder."""
    if model_dir == 'minilm':
        model_dir = tokenizer_lib.find_minilm()
    is_workdir = lambda: (files.require_local(model_dir) / 'model.json').exists()
    if embedding.startswith('mean') and not is_workdir():
        fields, params = bert.load_bert(model_dir)
        # Neither projection is applied.
        encoder = bert.encoder_class(fields)(**fields, relation_dim=0, entity_dim=0)
    else:
        encoder, params, _, _ = model_config.load(model_dir, step)
        params = params['encoder']
    return encoder, params, tokenizer_lib.load_tokenizer(model_dir)


def tokenise(tokenizer, sentences: list[LabelledSentence]) -> list[markup.TokenisedPassage]:
    """Passages of two mentions each, in order of the text; entity 0 is the topic, 1 the target."""
    return [markup.tokenise_pair(tokenizer, s.text, s.topic, s.target) for s in sentences]


def embed(encoder, params, passages, special, embedding: str) -> np.ndarray:
    """The vectors [n, d] float32 of tokenised passages, by any of `EMBEDDINGS` but 'pair'."""
    if embedding == 'mean':
        texts = [np.r_[special.cls, passage.tokens, special.sep] for passage in passages]
        lengths, make_batch = bulk_encoding.token_rows(texts, special)
    else:
        topic = np.array([np.flatnonzero(passage.entities == 0)[0] for passage in passages])
        masked, places = embedding.endswith('masked'), np.arange(len(passages))
        marked = markup.MarkedPairs(passages, places, topic, 1 - topic, special, masked)
        lengths, make_batch = marked.lengths, marked.batch
    of_relations = embedding.startswith('relation')
    size = encoder.relation_dim if of_relations else encoder.hidden_size
    apply = bulk_encoding.marked_relations if of_relations else _mean_of_tokens
    return bulk_encoding.BatchedEncoder(apply, encoder, params).all(lengths, make_batch, size)


def _mean_of_tokens(encoder, params, tokens, *_):
    weights = (tokens != PAD_ID)[:, :, None]
    hidden = encoder.apply({'params': params}, tokens, method=encoder.hidden)
    return (hidden * weights).sum(1) / jnp.maximum(weights.sum(1), 1)


def group_by_relation(
    relations: list[str], texts: list[str], min_texts: int
) -> list[list[np.ndarray]]:
    """For each relation with at least `min_texts` texts, by name, the indices of each text."""
    groups: dict[str, dict[str, list[int]]] = {}
    for i, (relation, text) in enumerate(zip(relations, texts)):
        groups.setdefault(relation, {}).setdefault(text, []).append(i)
    return [
        [np.array(same) for same in texts.values()]
        for _, texts in sorted(groups.items())
        if len(texts) >= min_texts
    ]


def episode_accuracies(
    vectors, groups, ways: int, shots: int, episodes: int, seed: int
) -> np.ndarray:
    """The share of right queries of each episode, [episodes] float64: N `ways`, K `shots`."""
    used = np.concatenate([same for texts in groups for same in texts])
    centred = vectors - vectors[used].mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.maximum(lengths, np.finfo(np.float32).tiny)
    rng = np.random.default_rng(seed)
    accuracies = np.empty(episodes)
    for episode in range(episodes):
        relations = rng.choice(len(groups), ways, replace=False)
        drawn = np.stack([draw(groups[relation], shots + 1, rng) for relation in relations])
        queries, support = unit[drawn[:, 0]], unit[drawn[:, 1:]]
        similarity = np.einsum('qd,nkd->qnk', queries, support).mean(axis=2)
        accuracies[episode] = np.mean(similarity.argmax(axis=1) == np.arange(ways))
    return accuracies


def draw(texts, count, rng):
    """One sentence of each of `count` different texts."""
    return [rng.choice(texts[i]) for i in rng.choice(len(texts), count, replace=False)]
