"""How many of the passages that a question of several hops needs are among the best, for our ranking and for what it is made of.

python benchmarks/retrieval.py --json
python benchmarks/retrieval.py --untitled --corpora musique --cache cache/
python benchmarks/retrieval.py --fit --cache cache/

MuSiQue and HotpotQA, development questions, each with the passages of all of its questions. Recall@k is the mean share of a question's
supporting passages among the best k; an answer is in the top 5 if one of these passages has it or an alias in its text. Titles,
recognised names and the vectors of an untrained MiniLM are all there is; `untitled` leaves out the titles too. Encoding takes minutes:
`--cache` keeps spans and vectors. `--fit` prints the weights of `opql_jax.retrieval.rank.WEIGHTS` anew, and with `--half` fits them to
every second question and scores the others.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import scipy.optimize
import scipy.sparse as sp
from command_line import make_parser, show

from opql_jax.corpus import name_resolution, recognition
from opql_jax.corpus.documents import Document
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.data import tokenizer
from opql_jax.retrieval import rank
from opql_jax.retrieval.index import Corpus, RetrievalIndex, build
from opql_jax.retrieval.words import words_of

_MAX_TOKENS, _MAX_SENTENCES = 256, 24
# What is left out, by the weights that make it count nothing; a link of weight -inf is not followed.
NEVER = -1e9
WITHOUT = {
    'words': ({'words': 0}, {'words': 0, 'words_share': 0}),
    'entities of the question': ({'named': 0, 'titled': 0}, {'named': 0, 'titled': 0, 'asked': 0}),
    'vectors': ({'sentence': 0, 'passage': 0}, {'sentence': 0, 'passage': 0, 'source': 0}),
    'sentences of the links': ({}, {'source': 0}),
    'title links': ({}, {'to_title': NEVER, 'from_title': NEVER}),
    'shared entities': ({}, {'shared': NEVER}),
    'all links': ({}, {'to_title': NEVER, 'from_title': NEVER, 'shared': NEVER}),
    'rarity and spread': ({}, {'rarity': 0, 'spread': 0}),
}


@dataclasses.dataclass
class Task:
    """A corpus as an index, and its questions with the passages (rows) that support each and the answers."""

    name: str
    index: RetrievalIndex
    questions: list[rank.Question]
    supporting: list[list[int]]
    answers: list[list[str]]


def main() -> None:
    """Prints a line for each corpus and way of ranking."""
    parser = make_parser(__doc__)
    parser.add_argument(
        '--data', type=pathlib.Path, default='../shared/data/multihop', help='NAME_corpus.jsonl, NAME_questions.jsonl'
    )
    parser.add_argument('--corpora', default='musique,hotpotqa', help='which')
    parser.add_argument('--questions', type=int, help='how many; all if not given')
    parser.add_argument('--passages', type=int, help='how many, and the questions that they support; all if not given')
    parser.add_argument('--cache', type=pathlib.Path, help='a folder that keeps spans and vectors')
    parser.add_argument('--untitled', action='store_true', help='leave titles out of text, vectors and index')
    parser.add_argument('--fit', action='store_true', help='fit the weights')
    parser.add_argument('--half', action='store_true', help='score every second question; with --fit, fit to the others')
    options = parser.parse_args()
    names = options.corpora.split(',')
    if absent := [name for name in names if not (options.data / f'{name}_corpus.jsonl').is_file()]:
        print(f'skipped: {options.data} has no {absent[0]}_corpus.jsonl', file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        tasks = [load(name, options, pathlib.Path(folder) / name) for name in names]
    weights = rank.WEIGHTS
    if options.fit:
        weights = fit([part(task, 0) for task in tasks] if options.half else tasks)
        show({'measure': 'weights', 'first': rounded(weights.first), 'next': rounded(weights.next)}, options.json)
    for task in tasks:
        for line in scores(part(task, 1) if options.half else task, weights):
            show(line, options.json)


def part(task: Task, remainder: int) -> Task:
    """Every second question."""
    return Task(task.name, task.index, task.questions[remainder::2], task.supporting[remainder::2], task.answers[remainder::2])


def rounded(weights) -> dict:
    """Weights as they are printed."""
    return {name: round(float(value), 2) for name, value in weights.items()}


# ---- Data ----


def read_lines(path: pathlib.Path) -> list[dict]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def load(name: str, options: argparse.Namespace, folder: pathlib.Path) -> Task:
    """Recognises, resolves, encodes and indexes a corpus."""
    passages = read_lines(options.data / f'{name}_corpus.jsonl')[: options.passages]
    row = {passage['id']: at for at, passage in enumerate(passages)}
    questions = [q for q in read_lines(options.data / f'{name}_questions.jsonl') if all(p in row for p in q['supporting'])]
    questions = questions[: options.questions]
    texts = [passage['text'] for passage in passages]
    titles = ['' if options.untitled else passage['title'] for passage in passages]
    documents = [Document(p['id'], p['title'], p['text'], title_entity=t or None) for p, t in zip(passages, titles)]
    spans = cached(options, f'{name}-spans.npy', lambda: recognise(texts))
    by_passage = np.split(spans, np.cumsum(np.bincount(spans[:, 0], minlength=len(texts)))[:-1])
    kinds = kind_names()
    recognised = [[recognition.Span(int(a), int(b), kinds[c]) for _, a, b, c in rows] for rows in by_passage]
    vocab, resolved = name_resolution.resolve(documents, recognised)
    mentions = [
        (at, mention.start, mention.end, vocab.id_of_key[mention.entity])
        for at, document in enumerate(resolved)
        for mention in document.mentions or ()
    ]
    starts = [sentence_starts(text) for text in texts]
    suffix = '-untitled' if options.untitled else ''
    both = cached(options, f'{name}-vectors{suffix}.npy', lambda: np.concatenate(encode(titles, texts, starts)))
    passage_vectors, sentence_vectors = np.split(both, [len(texts)])
    asked = [question['question'] for question in questions]
    vectors = cached(options, f'{name}-questions.npy', lambda: encode([''] * len(asked), asked, [[]] * len(asked))[0])
    index = build(
        folder,
        Corpus(
            ids=list(row),
            titles=titles,
            texts=texts,
            title_entities=np.array([vocab.id_of_key[d.title_entity] if d.title_entity else -1 for d in resolved], np.int32),
            mentions=np.array(mentions, np.int32).reshape(-1, 4),
            num_entities=len(vocab.keys),
            sentence_starts=starts,
            passage_vectors=passage_vectors,
            sentence_vectors=sentence_vectors,
        ),
    )
    linker = MentionLinker(vocab)
    return Task(
        name + suffix,
        index,
        [rank.Question(q, [e for _, _, e in linker.link(q)], v) for q, v in zip(asked, vectors)],
        [sorted({row[p] for p in q['supporting']}) for q in questions],
        [[q['answer'], *q['aliases']] for q in questions],
    )


def cached(options: argparse.Namespace, name: str, make) -> np.ndarray:
    """An array from the cache, or made and put there; parts of corpora are not kept."""
    if options.cache is None or options.passages or options.questions:
        return make()
    if not (path := options.cache / name).is_file():
        options.cache.mkdir(parents=True, exist_ok=True)
        np.save(path, make())
    return np.load(path, allow_pickle=False)


def kind_names() -> list[str]:
    """The kinds of spans, by number."""
    return sorted({*recognition.KINDS.values(), recognition.UNKNOWN_KIND})


def recognise(texts: list[str]) -> np.ndarray:
    """[spans, 4] text, start, end, number of the kind."""
    kinds = {kind: number for number, kind in enumerate(kind_names())}
    found = recognition.recognise_batch(pa.RecordBatch.from_pydict({'text': texts}))['spans'].to_pylist()
    rows = [(at, s['start'], s['end'], kinds[s['kind']]) for at, spans in enumerate(found) for s in spans]
    return np.array(rows, np.int32).reshape(-1, 4)


def encode(titles: list[str], texts: list[str], starts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The mean state of the tokens of each text with its title, and of those of each of its sentences, by an untrained MiniLM."""
    import jax
    import jax.numpy as jnp

    from opql_jax.models import bert
    from opql_jax.models.bulk_encoding import BatchedEncoder, Batching
    from opql_jax.models.encoder import RelationEncoder

    folder = tokenizer.find_minilm()
    fields, loaded = bert.load_bert(folder)
    encoder = RelationEncoder(**fields, relation_dim=8, entity_dim=2)
    params = {
        **jax.tree.map(jnp.asarray, loaded),
        'w_r': {'kernel': jnp.zeros((2 * fields['hidden_size'], 8))},
        'w_e': {'kernel': jnp.zeros((fields['hidden_size'], 2))},
    }
    prefixes = [f'{title}. ' if title else '' for title in titles]
    encoded = tokenizer.load_tokenizer(folder).encode_batch([a + b for a, b in zip(prefixes, texts)], add_special_tokens=True)

    def pooled(params, tokens, segment):
        hidden = encoder.apply({'params': params}, tokens, method=encoder.hidden).astype(jnp.float32)
        of_sentence = jax.nn.one_hot(segment, _MAX_SENTENCES)
        sums = jnp.einsum('nls,nlh->nsh', of_sentence, hidden)
        sentences = sums / jnp.maximum(of_sentence.sum(1)[..., None], 1)
        there = (tokens != 0)[..., None]
        return jnp.concatenate([((hidden * there).sum(1) / there.sum(1))[:, None], sentences], 1)

    def batch(rows, size, length):
        tokens, segment = np.zeros((size, length), np.int32), np.full((size, length), -1, np.int32)
        for at, row in enumerate(rows):
            found = encoded[row]
            count = min(len(found.ids), _MAX_TOKENS)
            tokens[at, :count] = found.ids[:count]
            offsets = np.array([start for start, _ in found.offsets[:count]]) - len(prefixes[row])
            numbers = np.searchsorted(starts[row], offsets, side='right') - 1
            numbers[(np.array(found.special_tokens_mask[:count]) == 1) | (numbers >= _MAX_SENTENCES)] = -1
            segment[at, :count] = numbers
        return tokens, segment

    lengths = np.array([min(len(found.ids), _MAX_TOKENS) for found in encoded])
    encoder_of_batches = BatchedEncoder(pooled, params, Batching(tuple(range(16, _MAX_TOKENS + 1, 16))))
    whole: list = [None] * len(texts)
    parts: list = [None] * len(texts)
    for rows, vectors in encoder_of_batches(lengths, batch):
        for row, made in zip(rows, vectors):
            whole[row] = made[0]
            parts[row] = np.zeros((len(starts[row]), made.shape[1]), np.float32)
            parts[row][:_MAX_SENTENCES] = made[1 : 1 + len(starts[row])]
    return np.stack(whole), np.concatenate(parts)


# ---- Scores ----


def scores(task: Task, weights: rank.Weights):
    """A line for each way of ranking."""
    index = task.index
    vectors = np.stack([q.vector / np.linalg.norm(q.vector) for q in task.questions])
    bm25 = np.stack([index.words[:, columns(index, q.text)].sum(1).A1 for q in task.questions])
    dense = vectors @ index.vectors[: len(index.ids)].T
    yield line(task, 'BM25', map(best, bm25))
    yield line(task, 'dense', map(best, dense))
    yield line(task, 'BM25 + dense', (best(standard(a) + standard(b)) for a, b in zip(bm25, dense)))
    walk = personalised_pagerank(index)
    yield line(task, 'graph', (best(walk(q, standard(d))) for q, d in zip(task.questions, dense)))
    start = time.process_time()
    ranked = run(index, task.questions, weights)
    spent = (time.process_time() - start) / len(task.questions)
    yield line(task, 'ours', ranked) | {'cpu_ms_per_question': round(spent * 1e3, 1)}
    for name, (first, after) in WITHOUT.items():
        changed = rank.Weights({**weights.first, **first}, {**weights.next, **after})
        yield line(task, f'ours without {name}', run(index, task.questions, changed))
    for hops in (1, 2, 4):
        yield line(task, f'ours, chains of at most {hops}', run(index, task.questions, weights, hops))


def run(index, questions, weights, hops: int = 3) -> list[list[int]]:
    """The five best passages of each question."""
    ranker = rank.Ranker(index, weights, hops)
    return [[ranked.passage for ranked in ranker.rank(question, 5)] for question in questions]


def columns(index: RetrievalIndex, text: str) -> list[int]:
    """The words of a text that the index has."""
    return sorted({index.word_ids[word] for word in words_of(text) if word in index.word_ids})


def standard(values: np.ndarray) -> np.ndarray:
    """Values in standard deviations from their mean."""
    return (values - values.mean()) / (values.std() or 1)


def best(values: np.ndarray) -> list[int]:
    """The places of the five highest."""
    return np.argsort(-values, kind='stable')[:5].tolist()


def personalised_pagerank(index: RetrievalIndex, damping: float = 0.5, steps: int = 15):
    """A graph of passages and the entities that they name, walked from the question's entities and the most similar passages."""
    named = index.passages_of_entity.tocsr()
    idf = np.log((len(index.ids) + 1) / (np.asarray(named.sum(0)).ravel() + 0.5))
    weighted = named @ sp.diags(idf)
    to_entities = sp.diags(1 / np.maximum(weighted.sum(1).A1, 1e-9)) @ weighted
    to_passages = (sp.diags(1 / np.maximum(np.asarray(named.sum(0)).ravel(), 1)) @ named.T).tocsr()

    def walk(question: rank.Question, similarity: np.ndarray) -> np.ndarray:
        entities = np.zeros(index.num_entities)
        entities[list(question.entities)] = idf[list(question.entities)]
        entities /= max(entities.sum(), 1e-9)
        passages = np.exp(2 * (similarity - similarity.max()))
        passages /= passages.sum()
        at_passages, at_entities = passages, entities
        for _ in range(steps):
            at_passages, at_entities = (
                (1 - damping) * passages + damping * (to_passages.T @ at_entities),
                (1 - damping) * entities + damping * (to_entities.T @ at_passages),
            )
        return at_passages

    return walk


def line(task: Task, ranking: str, ranked) -> dict:
    """What is printed of a ranking."""
    ranked = list(ranked)
    recall = {
        k: np.mean([len({*rows[:k]} & {*needed}) / len(needed) for rows, needed in zip(ranked, task.supporting)])
        for k in (2, 5)
    }
    texts = [' '.join(task.index.texts[p] for p in rows).casefold() for rows in ranked]
    found = np.mean([any(a.casefold() in text for a in answers) for text, answers in zip(texts, task.answers)])
    return {
        'corpus': task.name,
        'ranking': ranking,
        'recall_at_2': round(float(recall[2]), 3),
        'recall_at_5': round(float(recall[5]), 3),
        'answer_in_top_5': round(float(found), 3),
        'questions': len(ranked),
        'passages': len(task.index.ids),
    }


# ---- Weights ----


def fit(tasks: list[Task], questions: int = 300) -> rank.Weights:
    """Weights under which a supporting passage is likely to come first, and after some of them another.

    A few hundred questions of each corpus weigh the same; those of more than two hops twice. Chains begin at supporting
    passages while they are fitted.
    """
    first = solve([(x, g, 1.0) for task in tasks for x, g in itertools.islice(first_steps(task), questions)], len(rank.FIRST))
    weights = rank.Weights(dict(zip(rank.FIRST, first)), dict.fromkeys(rank.NEXT, 0.0))
    steps = [step for task in tasks for step in itertools.islice(next_steps(task, weights), questions)]
    return rank.Weights(weights.first, dict(zip(rank.NEXT, solve(list(itertools.chain(*steps)), len(rank.NEXT)))))


def first_steps(task: Task):
    """For each question, the quantities of all first passages and the right ones."""
    ranker = rank.Ranker(task.index)
    for question, needed in zip(task.questions, task.supporting):
        yield ranker.view(question).first(), needed


def next_steps(task: Task, weights: rank.Weights):
    """For each question, (quantities of the ways, the right ones, weight) after each chain of supporting passages."""
    ranker = rank.Ranker(task.index, weights)
    for question, needed in zip(task.questions, task.supporting):
        view = ranker.view(question)
        chains = [c for n in range(1, len(needed)) for c in itertools.permutations(needed, n) if n < 2 or c[-1] > c[0]][:8]
        found = [ranker.candidates(view, chain) for chain in chains]
        right = [np.flatnonzero(np.isin(f.passages[f.place], needed)) for f in found]
        weight = (2.0 if len(needed) > 2 else 1.0) / max(len(chains), 1)
        yield [(f.edges.quantities, r, weight) for f, r in zip(found, right) if len(r)]


def solve(examples: list[tuple], width: int, decay: float = 1e-3) -> np.ndarray:
    """The weights that maximise the mean log-probability of the right ones, less a small penalty on their standardised sizes."""
    spread = np.mean([x.std(0) for x, _, _ in examples], 0) + 1e-3
    examples = [(x / spread, right, weight) for x, right, weight in examples]
    total = sum(weight for _, _, weight in examples)

    def loss(weights):
        value, gradient = decay * weights @ weights, 2 * decay * weights
        for x, right, weight in examples:
            logits = x @ weights
            p = np.exp(logits - logits.max())
            p /= p.sum()
            mass = p[right].sum() + 1e-12
            value -= weight / total * np.log(mass)
            gradient -= weight / total * (p[right] @ x[right] / mass - p @ x)
        return value, gradient

    return scipy.optimize.minimize(loss, np.zeros(width), jac=True, method='L-BFGS-B').x / spread


if __name__ == '__main__':
    main()
