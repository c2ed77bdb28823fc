"""The knowledge bases and questions that `benchmarks/calibration.py` fits and checks the probabilities of answers with.

python benchmarks/calibration_sets.py OUT --data ../shared/data

Writes below OUT a folder for each set, with knowledge bases `N.kb` and, beside each, questions `N.jsonl`: {"id", "question", "answers"}, whose
answers are empty where its text does not have them. Documents are left out of the text to that end, so that such questions are like the others:

    squad      paragraphs of Wikipedia with questions (XQuAD), whole, and with each third one left out
    articles   the same as many small texts: the paragraphs of one article, all and without one
    musique, hotpotqa   questions of several hops that the reader was not trained with, over some documents, half of the questions without
                        the documents that have their answer
    pools      as many small texts: the documents of one question of HotpotQA with some others, and without those that answer it
    films      MetaQA's development questions about some of its films, and about others
"""

import json
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
from command_line import make_parser, show

from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.index_text import index_text
from opql_jax.recipes.reader import is_left_out

# Documents of a small text, films and questions about them, and a prime that a fraction of things is taken by.
POOL, FILMS, FILM_QUESTIONS = 6, 1_500, 360


def main() -> None:
    """Makes the sets that are not there."""
    parser = make_parser(__doc__)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--data', type=pathlib.Path, required=True, help='the folder that has metaqa, multihop and qa')
    parser.add_argument('--sets', nargs='*', default=list(SETS))
    parser.add_argument('--documents', type=int, default=1_000, help='of each of musique and hotpotqa')
    parser.add_argument('--small', type=int, default=60, help='small texts of each kind, at most')
    options = parser.parse_args()
    for name in options.sets:
        for number, (documents, questions) in enumerate(SETS[name](options)):
            folder = options.out / name
            folder.mkdir(parents=True, exist_ok=True)
            made = [{'id': str(document['id']), 'title': document['title'], 'text': document['text']} for document in documents]
            index_text(made, folder / f'{number}.kb', processes=1)
            write_json_lines(folder / f'{number}.jsonl', questions)
        show({'measure': 'made', 'set': name, 'knowledge_bases': number + 1}, options.json)


Texts = Iterator[tuple[list[dict], list[dict]]]


def records(path: pathlib.Path) -> list[dict]:
    """The objects of a file, a line each."""
    return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


def paragraphs(options) -> list[dict]:
    """Paragraphs as documents with their questions."""
    found = records(options.data / 'qa' / 'squad_paragraphs.jsonl')
    return [{'id': number, **paragraph} for number, paragraph in enumerate(found)]


def asked(documents: Iterable[dict], answerable: bool) -> list[dict]:
    """The questions of paragraphs, as those are in the text or not."""
    of = (question for document in documents for question in document['questions'])
    return [{'id': one['id'], 'question': one['question'], 'answers': one['answers'] if answerable else []} for one in of]


def squad(options) -> Texts:
    """All paragraphs in one text; two thirds of them."""
    found = paragraphs(options)
    yield found, asked(found, True)
    kept, left_out = [one for one in found if one['id'] % 3], [one for one in found if not one['id'] % 3]
    yield kept, asked(left_out, False)


def articles(options) -> Texts:
    """Each article as a text, whole and without one of its paragraphs."""
    of_title: dict[str, list[dict]] = {}
    for one in paragraphs(options):
        of_title.setdefault(one['title'], []).append(one)
    for number, found in enumerate(list(of_title.values())[: options.small]):
        left_out = found[number % len(found)]
        yield found, asked(found, True)
        yield [one for one in found if one is not left_out], asked([left_out], False)


def several_hops(options, name: str) -> tuple[dict[str, dict], list[dict]]:
    """The documents of a set by id, and its questions that no training saw and that nothing is compared for."""
    folder = options.data / 'multihop'
    documents = {document['id']: document for document in records(folder / f'{name}_corpus.jsonl')}
    questions = [one for one in records(folder / f'{name}_questions.jsonl') if is_left_out(one['id'])]
    return documents, questions


def answers(question: dict) -> list[str]:
    """All spellings of what answers a question of several hops."""
    return [question['answer'], *question['aliases']]


def states(document: dict, spellings: list[str]) -> bool:
    """Whether a document has one of some answers, in any spelling that folds alike."""
    text = f' {fold(document["title"])} {fold(document["text"])} '
    return any(f' {fold(each)} ' in text for each in spellings)


def half_stated(options, name: str) -> Texts:
    """A sample of documents, and all questions, every other one of which has lost what answers it."""
    documents, questions = several_hops(options, name)
    rng = np.random.default_rng(0)
    known, unknown = questions[::2], questions[1::2]
    lost = {i for one in unknown for i in one['supporting'] if states(documents[i], answers(one))}
    needed = dict.fromkeys(i for one in questions for i in one['supporting'])
    kept = [i for i in needed if i not in lost]
    others = [i for i in documents if i not in needed]
    kept += [others[i] for i in rng.permutation(len(others))[: max(options.documents - len(kept), 0)]]
    known = [one for one in known if lost.isdisjoint(one['supporting'])]
    yield (
        [documents[i] for i in kept],
        [
            {'id': one['id'], 'question': one['question'], 'answers': answers(one) if one in known else []}
            for one in (*known, *(one for one in unknown if not lost.isdisjoint(one['supporting'])))
        ],
    )


def pools(options) -> Texts:
    """The documents of a question with a few others, with and without those that answer it."""
    documents, questions = several_hops(options, 'hotpotqa')
    rng = np.random.default_rng(1)
    ids = list(documents)
    for number, one in enumerate(questions[: options.small]):
        spellings = answers(one)
        support = [i for i in one['supporting'] if not number % 2 or not states(documents[i], spellings)]
        drawn = [ids[i] for i in rng.permutation(len(ids)) if not states(documents[ids[i]], spellings)][:POOL]
        pool = dict.fromkeys((*support, *drawn))
        asked_for = spellings if not number % 2 else []
        yield [documents[i] for i in list(pool)[:POOL]], [{'id': one['id'], 'question': one['question'], 'answers': asked_for}]


def films(options) -> Texts:
    """Some films, and questions of one and two hops, of whose answers all or none are of these."""
    found = records(options.data / 'metaqa' / 'passages.jsonl')
    rng = np.random.default_rng(2)
    kept = [found[i] for i in rng.permutation(len(found))[:FILMS]]
    text = ' '.join(f' {fold(one["title"])} {fold(one["text"])} ' for one in kept)
    questions: list[dict] = []
    for hops in (1, 2):
        lines = (options.data / 'metaqa' / f'{hops}-hop' / 'dev.txt').read_text(encoding='utf-8').splitlines()
        asked_for: dict[bool, list[dict]] = {True: [], False: []}
        for number in rng.permutation(len(lines)).tolist():
            question, right, *_ = lines[number].split('\t')
            topic = question[question.index('[') + 1 : question.index(']')]
            spellings = right.split('|')
            has = [f' {fold(each)} ' in text for each in spellings]
            # A film that is asked about is in the text, or none of what answers is: a person may be named there for another reason.
            if f' {fold(topic)} ' in text and (all(has) or not any(has)):
                plain = question.replace('[', '').replace(']', '')
                asked_for[any(has)].append(
                    {'id': f'{hops}-{number}', 'question': plain, 'answers': spellings if any(has) else []}
                )
        questions += [one for answerable, of in asked_for.items() for one in of[: FILM_QUESTIONS // (2 if answerable else 6)]]
    yield kept, questions


SETS = {
    'squad': squad,
    'articles': articles,
    'musique': lambda options: half_stated(options, 'musique'),
    'hotpotqa': lambda options: half_stated(options, 'hotpotqa'),
    'pools': pools,
    'films': films,
}

if __name__ == '__main__':
    main()
