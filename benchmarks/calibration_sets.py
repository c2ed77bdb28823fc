"""The knowledge bases and questions for `benchmarks/calibration.py`.

python benchmarks/calibration_sets.py OUT --data ../shared/data

Writes a folder below OUT for each set, with knowledge bases `N.kb` and beside each its questions,
`N.jsonl`: {"id", "question", "answers"}. Some questions have no answers, because the documents that
state them are left out of the text:

    squad       two thirds of the paragraphs of XQuAD, and questions about all of them
    articles    the same, each article a knowledge base of its own, without one of its paragraphs
    hotpotqa, musique   questions of several hops that the reader was not trained with; one in four
                        has lost what answers it
    pools       as many small knowledge bases, of six documents for one question of HotpotQA each,
                        half of them without what answers it
    films       some of MetaQA's films, and questions of one and two hops
    written     small knowledge bases of six documents that were written with questions
    linked      the same of some twelve that name each other, and questions of several hops
    labelled    documents of Re-DocRED and T-REx, and questions of two hops made of their labels,
                see comparisons.py
"""

import argparse
import functools
import pathlib
from collections.abc import Iterator, Sequence

import comparisons
import numpy as np
from timing import DATA, make_parser, show

from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.name_resolution import fold
from opql_jax.data import linked_questions, written_questions
from opql_jax.data.written_questions import WrittenQuestion
from opql_jax.kb.text.index_text import index_text
from opql_jax.recipes.reader_examples import is_left_out
from opql_jax.recipes.retrieval import records

# Documents of a small knowledge base.
POOL = 6


def main() -> None:
    """Makes the sets, and prints a line for each."""
    sizes = {'questions': (120, 'of each set, at most')}
    sizes['documents'] = 320, 'about so many of hotpotqa, musique, films and labelled'
    parser = make_parser(__doc__, data=DATA, **sizes)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--sets', nargs='*', choices=list(SETS), default=list(SETS))
    options = parser.parse_args()
    for name in options.sets:
        folder = options.out / name
        folder.mkdir(parents=True, exist_ok=True)
        counts = {'knowledge_bases': 0, 'documents': 0, 'questions': 0}
        made = SETS[name](options, np.random.default_rng(0))
        for number, (documents, questions) in enumerate(made):
            texts = [
                {'id': str(one['id']), 'title': one['title'], 'text': one['text']}
                for one in documents
            ]
            index_text(texts, folder / f'{number}.kb', processes=1)
            write_json_lines(folder / f'{number}.jsonl', questions)
            for of, count in zip(counts, (1, len(documents), len(questions))):
                counts[of] += count
        show({'measure': 'set', 'set': name, **counts}, options.json)


Documents, Questions = list[dict], list[dict]
Texts = Iterator[tuple[Documents, Questions]]


def some(of: Sequence, count: int, rng: np.random.Generator) -> list:
    """As many of a sequence, in its order."""
    return [of[i] for i in sorted(rng.permutation(len(of))[:count].tolist())]


def asked(question: dict, answers: Sequence[str]) -> dict:
    """A line of a file of questions."""
    return {'id': question['id'], 'question': question['question'], 'answers': list(answers)}


def paragraphs(options: argparse.Namespace) -> Documents:
    """The paragraphs of XQuAD, with their questions."""
    found = records(options.data / 'qa' / 'squad_paragraphs.jsonl')
    return [{'id': number, **paragraph} for number, paragraph in enumerate(found)]


def questions_about(
    kept: Documents, lost: Documents, count: int, rng: np.random.Generator
) -> Questions:
    """Questions about paragraphs, a third of them about some that are lost."""
    known = [asked(one, one['answers']) for paragraph in kept for one in paragraph['questions']]
    unknown = [asked(one, ()) for paragraph in lost for one in paragraph['questions']]
    return some(known, count - count // 3, rng) + some(unknown, count // 3, rng)


def squad(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """Two thirds of all paragraphs."""
    found = paragraphs(options)
    kept = [one for one in found if one['id'] % 3]
    yield kept, questions_about(kept, found[::3], options.questions, rng)


def articles(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """The articles of the paragraphs, each without one of them."""
    of_title: dict[str, Documents] = {}
    for one in paragraphs(options):
        of_title.setdefault(one['title'], []).append(one)
    chosen = some(list(of_title.values()), max(options.questions // 12, 1), rng)
    for number, found in enumerate(chosen):
        lost = found[number % len(found)]
        kept = [one for one in found if one is not lost]
        yield kept, questions_about(kept, [lost], options.questions // len(chosen), rng)


def several_hops(options: argparse.Namespace, name: str) -> tuple[dict[str, dict], Questions]:
    """The documents of a set by their ids, and the questions that no training saw."""
    folder = options.data / 'multihop'
    documents = {one['id']: one for one in records(folder / f'{name}_corpus.jsonl')}
    questions = records(folder / f'{name}_questions.jsonl')
    return documents, [one for one in questions if is_left_out(one['id'])]


def answers_of(question: dict) -> list[str]:
    """What answers a question of several hops, in all spellings."""
    return [question['answer'], *question['aliases']]


def states(document: dict, spellings: Sequence[str]) -> bool:
    """Whether a document has one of several names, as they fold."""
    text = f' {fold(document["title"])} {fold(document["text"])} '
    return any(f' {fold(each)} ' in text for each in spellings)


def multihop(options: argparse.Namespace, rng: np.random.Generator, name: str) -> Texts:
    """A set of questions of several hops over one knowledge base."""
    documents, questions = several_hops(options, name)
    questions = some(questions, options.questions, rng)
    unknown = questions[::4]
    lost = {
        i for one in unknown for i in one['supporting'] if states(documents[i], answers_of(one))
    }
    needed = dict.fromkeys(i for one in questions for i in one['supporting'])
    kept = [i for i in needed if i not in lost]
    others = [i for i in documents if i not in lost and i not in needed]
    kept += some(others, max(options.documents - len(kept), 0), rng)
    has = {one['id']: lost.isdisjoint(one['supporting']) for one in questions}
    yield (
        [documents[i] for i in kept],
        # What another question lost is not there for this one, either.
        [
            asked(one, answers_of(one) if has[one['id']] else ())
            for one in questions
            if one in unknown or has[one['id']]
        ],
    )


def pools(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """Documents that support a question, and others, with and without those of its answer."""
    documents, questions = several_hops(options, 'hotpotqa')
    for number, question in enumerate(some(questions, max(options.questions // 4, 2), rng)):
        spellings, has = answers_of(question), number % 2 == 0
        support = [documents[i] for i in question['supporting']]
        others = some(list(documents.values()), 4 * POOL, rng)
        # What states the answer only as support, and there only if the question is to have it.
        pool = [one for one in support if has or not states(one, spellings)]
        pool += [one for one in others if not states(one, spellings)]
        of = {one['id']: one for one in pool}
        yield list(of.values())[:POOL], [asked(question, spellings if has else ())]


def in_pools(
    texts: Sequence[tuple[Documents, Questions]],
    size: int,
    options: argparse.Namespace,
    rng: np.random.Generator,
) -> Texts:
    """Knowledge bases of `size` texts each, with some of their questions."""
    pools = [texts[start : start + size] for start in range(0, len(texts), size)]
    for pool in pools:
        questions = [question for _, of in pool for question in of]
        kept = some(questions, max(options.questions // len(pools), 1), rng)
        yield [document for of, _ in pool for document in of], kept


def about(question: WrittenQuestion) -> dict:
    """A question that was written, with its answers."""
    return asked({'id': question.text, 'question': question.text}, question.answers)


def written(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """Documents that were written with questions, and that the reader was not trained with."""
    texts = []
    for one in written_questions.documents():
        text = '\n\n'.join(paragraph.text for paragraph in one.paragraphs)
        questions = [of for paragraph in one.paragraphs for of in paragraph.questions]
        if is_left_out(one.title):
            document = {'id': one.title, 'title': one.title, 'text': text}
            texts.append(([document], [about(of) for of in questions if not of.verdict]))
    yield from in_pools(some(texts, options.documents // 2, rng), POOL, options, rng)


def linked(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """The same of sets of documents that name each other, two sets together."""
    texts = [
        (
            [{'id': title, 'title': title, 'text': text} for title, text in one.documents.items()],
            [about(question) for question, _ in one.questions if not question.verdict],
        )
        for one in linked_questions.linked_sets()
        if is_left_out(one.name)
    ]
    yield from in_pools(some(texts, options.documents // 16, rng), 2, options, rng)


def films(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """Some films, and questions about them that the text answers fully or not at all."""
    kept = some(records(options.data / 'metaqa' / 'passages.jsonl'), options.documents, rng)
    text = ' '.join(f' {fold(one["title"])} {fold(one["text"])} ' for one in kept)
    questions: Questions = []
    for hops in (1, 2):
        path = options.data / 'metaqa' / f'{hops}-hop' / 'dev.txt'
        lines = path.read_text(encoding='utf-8').splitlines()
        of: dict[bool, Questions] = {True: [], False: []}
        for number in rng.permutation(len(lines)).tolist():
            question, right, *_ = lines[number].split('\t')
            topic = question[question.index('[') + 1 : question.index(']')]
            has = [f' {fold(each)} ' in text for each in right.split('|')]
            if f' {fold(topic)} ' in text and (all(has) or not any(has)):
                plain = question.replace('[', '').replace(']', '')
                one = {'id': f'{hops}-{number}', 'question': plain}
                of[any(has)].append(asked(one, right.split('|') if any(has) else ()))
        questions += of[True][: options.questions * 3 // 8] + of[False][: options.questions // 8]
    yield kept, questions


def labelled(options: argparse.Namespace, rng: np.random.Generator) -> Texts:
    """Documents with labels, and questions of two hops."""
    texts, made = comparisons.make(options.data)
    questions = [one for one in made if one.kind == 'two hops'][: options.questions]
    needed = sorted({name for one in made for name in one.documents})[: options.documents]
    needed += [name for one in questions for name in one.documents]
    yield (
        [texts[name] for name in dict.fromkeys(needed)],
        [asked({'id': str(i), **one._asdict()}, one.answers) for i, one in enumerate(questions)],
    )


SETS = {
    'labelled': labelled,
    'squad': squad,
    'articles': articles,
    'hotpotqa': functools.partial(multihop, name='hotpotqa'),
    'musique': functools.partial(multihop, name='musique'),
    'pools': pools,
    'films': films,
    'written': written,
    'linked': linked,
}

if __name__ == '__main__':
    main()
