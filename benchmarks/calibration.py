"""Whether the probabilities of answers over plain text come true.

python benchmarks/calibration.py sets --folder sets --data ../shared/data
python benchmarks/calibration.py weights --folder sets --json
python benchmarks/calibration.py ranking --folder sets --questions 160 --documents 20000 --json

sets     Writes a folder for each set, with knowledge bases `N.kb` and beside each its questions,
         `N.jsonl`: {"id", "question", "answers"}. Some questions have no answers, because the
         documents that state them are left out of the text. At most so many `questions` each, and
         about so many `documents` of hotpotqa, musique, films and labelled:
    squad       two thirds of the paragraphs of XQuAD, and questions about all of them
    articles    the same, each article a knowledge base of its own, without one of its paragraphs
    hotpotqa, musique   questions of several hops that the reader was not trained with; one in four
                        has lost what answers it
    pools       as many small knowledge bases, of six documents for one question of HotpotQA each,
                        half of them without what answers it
    films       some of MetaQA's films, and questions of one and two hops
    written     small knowledge bases of six documents that were written with questions
    linked      the same of some twelve that name each other, and questions of several hops
    labelled    documents of Re-DocRED and T-REx, and two-hop questions, see comparisons.py
weights  Fits those of `opql_jax/kb/calibration.py`. To the questions of each knowledge base belong
         some about its names that no text answers, such as for a shoe size. Questions that compare
         or are out of reach are left out: they have no score of their own. With `--reader` its part
         is looked at, too, which takes several times as long. Lines `set` have, for each set, the
         weights being fitted to the others (without those of the same text, `KIN`): the share of
         right first answers and of right ones among five; how many are sure, of these right, and of
         the right ones sure; of the questions without an answer how many have a sure one; and the
         expected calibration error of first answers, and of those to all questions; and of
         questions with an answer and without how many have a document of a probability that would
         be sure. Lines `used` have the same with the weights in use. The last lines, `weights`,
         have those that all sets give.
ranking  How many of the documents that support an answer `retrieve` has among two and five, with
         the reader and without, of so many documents, by questions that it never saw.
"""

import argparse
import collections
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import comparisons
import numpy as np
import scipy.optimize
import scipy.special
from timing import DATA, run

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_json_lines, write_json_lines
from opql_jax.corpus.name_resolution import fold
from opql_jax.data import linked_questions, written_questions
from opql_jax.kb import calibration
from opql_jax.kb.text import comparison, question_plans
from opql_jax.kb.text.candidates import features
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.text.stated import left
from opql_jax.kb.text.text_kb import LOOKED_AT
from opql_jax.recipes.reader_examples import is_left_out
from opql_jax.recipes.retrieval import records

# Documents of a small knowledge base.
POOL = 6
BINS, TOGETHER = 10, 8
# L2 penalty on the weights of standardised features, bias excepted.
DECAY = 1e-3
# Sets that have text of another, or such as it has.
KIN = {'articles': 'squad', 'pools': 'hotpotqa', 'linked': 'written'}
UNANSWERED = (
    'What is the shoe size of {}? / Which football club does {} support? / What is the favourite '
    'colour of {}? / Who taught {} to swim? / When did {} join the chess club? / Who is the '
    'dentist of {}? / Where did {} buy a bicycle? / Who painted the kitchen of {}? / Which hotel '
    'does {} own in Lisbon? / Who inherited the piano of {}?'
).split(' / ')
Documents, Questions = list[dict], list[dict]
Texts = Iterator[tuple[Documents, Questions]]


# ---- Sets ----


def write(options: argparse.Namespace) -> Iterator[dict]:
    """Makes the sets; a line for each."""
    for name in options.sets:
        folder, counts = options.folder / name, np.zeros(3, int)
        folder.mkdir(parents=True, exist_ok=True)
        made = SETS[name](options, np.random.default_rng(0))
        for number, (documents, questions) in enumerate(made):
            index_text(map(text_of, documents), folder / f'{number}.kb', processes=1)
            write_json_lines(folder / f'{number}.jsonl', questions)
            counts += 1, len(documents), len(questions)
        of = 'knowledge_bases', 'documents', 'questions'
        yield {'measure': 'set', 'set': name, **dict(zip(of, counts.tolist()))}


def text_of(document: dict) -> dict[str, str]:
    """A document as it is indexed."""
    return {of: str(document[of]) for of in ('id', 'title', 'text')}


def some(of: Sequence, count: int, rng: np.random.Generator) -> list:
    """As many of a sequence, in its order."""
    return [of[i] for i in sorted(rng.permutation(len(of))[:count].tolist())]


def line_of(question: dict, answers: Sequence[str] = ()) -> dict:
    """A line of a file of questions."""
    return {'id': question['id'], 'question': question['question'], 'answers': list(answers)}


def about(kept: Documents, lost: Documents, count: int, rng) -> tuple[Documents, Questions]:
    """Paragraphs and questions about them, a third of which are about some that are lost."""
    known = [line_of(one, one['answers']) for paragraph in kept for one in paragraph['questions']]
    unknown = [line_of(one) for paragraph in lost for one in paragraph['questions']]
    return kept, some(known, count - count // 3, rng) + some(unknown, count // 3, rng)


def squad(options, rng: np.random.Generator, by_article: bool = False) -> Texts:
    """Two thirds of the paragraphs of XQuAD, or some articles, each without one of its own."""
    found = records(options.data / 'qa' / 'squad_paragraphs.jsonl')
    found = [{'id': number, **paragraph} for number, paragraph in enumerate(found)]
    if not by_article:
        yield about([one for one in found if one['id'] % 3], found[::3], options.questions, rng)
        return
    of_title: dict[str, Documents] = {}
    for one in found:
        of_title.setdefault(one['title'], []).append(one)
    articles = some(list(of_title.values()), max(options.questions // 12, 1), rng)
    for number, article in enumerate(articles):
        lost = number % len(article)
        kept = article[:lost] + article[lost + 1 :]
        yield about(kept, [article[lost]], options.questions // len(articles), rng)


def several_hops(options, name: str) -> tuple[dict[str, dict], Questions]:
    """The documents of a set by their ids, and the questions that no training saw.

    The answers of a question are its answer in all spellings.
    """
    corpus, questions = (
        records(options.data / 'multihop' / f'{name}_{of}.jsonl') for of in ('corpus', 'questions')
    )
    asked = [
        {**one, 'answers': [one['answer'], *one['aliases']]}
        for one in questions
        if is_left_out(one['id'])
    ]
    return {one['id']: one for one in corpus}, asked


def folded(documents: Documents) -> str:
    """Titles and texts as they fold, for looking up folded names between spaces."""
    return ' '.join(f' {fold(one["title"])} {fold(one["text"])} ' for one in documents)


def states(document: dict, question: dict) -> bool:
    """Whether a document has an answer in one of its spellings."""
    text = folded([document])
    return any(f' {fold(each)} ' in text for each in question['answers'])


def multihop(options, rng: np.random.Generator, name: str) -> Texts:
    """A set of questions of several hops over one knowledge base."""
    documents, questions = several_hops(options, name)
    questions = some(questions, options.questions, rng)
    lost = {i for one in questions[::4] for i in one['supporting'] if states(documents[i], one)}
    needed = dict.fromkeys(i for one in questions for i in one['supporting'])
    kept = [i for i in needed if i not in lost]
    others = [i for i in documents if i not in lost and i not in needed]
    kept += some(others, max(options.documents - len(kept), 0), rng)
    asked = []
    for number, one in enumerate(questions):
        # What another question lost is not there for this one, either.
        has = lost.isdisjoint(one['supporting'])
        if has or number % 4 == 0:
            asked.append(line_of(one, one['answers'] if has else ()))
    yield [documents[i] for i in kept], asked


def pools(options, rng: np.random.Generator) -> Texts:
    """Documents that support a question, and others, with and without those of its answer."""
    documents, questions = several_hops(options, 'hotpotqa')
    for number, question in enumerate(some(questions, max(options.questions // 4, 2), rng)):
        has = number % 2 == 0
        support = [documents[i] for i in question['supporting']]
        others = some(list(documents.values()), 4 * POOL, rng)
        # What states the answer only as support, and there only if the question is to have it.
        pool = [one for one in support if has or not states(one, question)]
        pool += [one for one in others if not states(one, question)]
        kept = list({one['id']: one for one in pool}.values())[:POOL]
        yield kept, [line_of(question, question['answers'] if has else ())]


def in_pools(texts: Sequence, size: int, options, rng: np.random.Generator) -> Texts:
    """Knowledge bases of `size` texts each, with some of their questions, but those of yes or no.

    A text has documents, by title, and the questions that were written with them.
    """
    pools = [texts[start : start + size] for start in range(0, len(texts), size)]
    for pool in pools:
        questions = [one for _, of in pool for one in of if not one.verdict]
        kept = some(questions, max(options.questions // len(pools), 1), rng)
        yield (
            [{'id': title, 'title': title, 'text': of[title]} for of, _ in pool for title in of],
            [line_of({'id': one.text, 'question': one.text}, one.answers) for one in kept],
        )


def written(options, rng: np.random.Generator) -> Texts:
    """Documents that were written with questions, and that the reader was not trained with."""
    texts = [
        (
            {one.title: '\n\n'.join(paragraph.text for paragraph in one.paragraphs)},
            [question for paragraph in one.paragraphs for question in paragraph.questions],
        )
        for one in written_questions.documents()
        if is_left_out(one.title)
    ]
    yield from in_pools(some(texts, options.documents // 2, rng), POOL, options, rng)


def linked(options, rng: np.random.Generator) -> Texts:
    """The same of sets of documents that name each other, two sets together."""
    texts = [
        (one.documents, [question for question, _ in one.questions])
        for one in linked_questions.linked_sets()
        if is_left_out(one.name)
    ]
    yield from in_pools(some(texts, options.documents // 16, rng), 2, options, rng)


def films(options, rng: np.random.Generator) -> Texts:
    """Some films, and questions about them that the text answers fully or not at all."""
    kept = some(records(options.data / 'metaqa' / 'passages.jsonl'), options.documents, rng)
    text, questions = folded(kept), []
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
                of[any(has)].append(line_of(one, right.split('|') if any(has) else ()))
        questions += of[True][: options.questions * 3 // 8] + of[False][: options.questions // 8]
    yield kept, questions


def labelled(options, rng: np.random.Generator) -> Texts:
    """Documents with labels, and questions of two hops."""
    texts, made = comparisons.make(options.data)
    questions = [one for one in made if one.kind == 'two hops'][: options.questions]
    needed = sorted({name for one in made for name in one.documents})[: options.documents]
    needed += [name for one in questions for name in one.documents]
    asked = [
        line_of({'id': str(i), **one._asdict()}, one.answers) for i, one in enumerate(questions)
    ]
    yield [texts[name] for name in dict.fromkeys(needed)], asked


SETS = {
    'labelled': labelled,
    'squad': squad,
    'articles': functools.partial(squad, by_article=True),
    'hotpotqa': functools.partial(multihop, name='hotpotqa'),
    'musique': functools.partial(multihop, name='musique'),
    'pools': pools,
    'films': films,
    'written': written,
    'linked': linked,
}


# ---- Ranking ----


def rank(options: argparse.Namespace) -> Iterator[dict]:
    """Two lines for each set."""
    for name in ('musique', 'hotpotqa'):
        documents, questions = several_hops(options, name)
        asked, folder = questions[: options.questions], options.folder / 'ranking' / name
        if not folder.exists():
            needed = dict.fromkeys(each for one in asked for each in one['supporting'])
            kept = [*needed, *(each for each in documents if each not in needed)]
            kept = kept[: max(options.documents, len(needed))]
            index_text((text_of(documents[each]) for each in kept), folder, processes=1)
        with opql_jax.open(folder) as kb:
            for read in (False, True):
                line: dict = {'measure': 'ranking', 'set': name, 'reader': read}
                found = kb.retrieve([one['question'] for one in asked], 5, read=read)
                for k in (2, 5):
                    shares = [
                        np.isin(one['supporting'], [each.document for each in of[:k]]).mean()
                        for one, of in zip(asked, found)
                    ]
                    line[f'recall@{k}'] = round(float(np.mean(shares)), 4)
                yield line | {'questions': len(asked)}


# ---- Weights ----


# A question's candidates [n]: features, whether each is right, and what `left` keeps of it; whether
# the text answers it, and the best probability of a document.
Asked = collections.namedtuple('Asked', 'features right answerable left evidence')
Sets = Mapping[str, Sequence[Asked]]


def measure(options: argparse.Namespace) -> Iterator[dict]:
    """The lines without the reader, and with it if that is wanted."""
    answered: dict[str, list[dict[bool, Asked]]] = {}
    for kb in sorted(options.folder.glob('*/*.kb')):
        answered.setdefault(kb.parent.name, []).extend(asked_of_kb(kb, options.reader))
    for has_reader in (True, False) if options.reader else (False,):
        sets = {name: [one[has_reader] for one in of] for name, of in answered.items()}
        chances = calibration.read_probabilities if has_reader else calibration.probabilities
        used = calibration.READ if has_reader else calibration.FOLLOWED
        text = lambda name: KIN.get(name, name)
        for name, asked in sets.items():
            others = {other: of for other, of in sets.items() if text(other) != text(name)}
            for of, weights in (('set', fit_to(others or sets, has_reader)), ('used', used)):
                found = [one.left * chances(one.features, weights) for one in asked]
                yield {'measure': of, 'set': name, 'reader': has_reader} | scores(asked, found)
        told = {of: round(weight, 3) for of, weight in fit_to(sets, has_reader).items()}
        yield {'measure': 'weights', 'reader': has_reader} | told


def asked_of_kb(folder: pathlib.Path, has_reader: bool) -> Iterator[dict[bool, Asked]]:
    """Answers the questions of a knowledge base, without the reader and, if wanted, with it."""
    records = [record for _, record in read_json_lines(folder.with_suffix('.jsonl'))]
    asked = [(one['question'], frozenset(map(fold, one['answers']))) for one in records]
    with opql_jax.open(folder) as kb:
        kinds = enumerate(kb.vocab.kinds)
        known = [row for row, kind in kinds if kind in ('person', 'organisation', 'place')]
        order = np.random.default_rng(0).permutation(len(known))
        for number, i in enumerate(order[: 1 + len(records) // 10], len(records)):
            unanswered = UNANSWERED[number % len(UNANSWERED)]
            asked.append((unanswered.format(kb.vocab.names[known[i]]), frozenset()))
        for start in range(0, len(asked), TOGETHER):
            yield from asked_together(kb, asked[start : start + TOGETHER], has_reader)


def asked_together(
    kb, asked: Sequence[tuple[str, frozenset[str]]], has_reader: bool
) -> Iterator[dict[bool, Asked]]:
    """What answers some questions, of which the folded names of right answers are known."""
    block = []
    for text, right in asked:
        try:
            question = kb.question(text)
        except InputError:  # it names nothing of the text
            nothing = np.zeros((0, len(calibration.FEATURES))), np.zeros(0, bool)
            yield dict.fromkeys((False, True), Asked(*nothing, bool(right), np.ones(0), 0.0))
        else:
            compares = comparison.parse_question(question, kb.vocab.kinds)
            if not (compares or question_plans.out_of_reach(text)):
                block.append((question, right))
    questions, answerer = [question for question, _ in block], kb.text_answerer
    found = answerer.follow(questions)
    evidence = answerer.read(questions, found, kb.read) if has_reader else [None] * len(questions)
    judged = kb.retrieve([question.text for question in questions], 5, read=has_reader)
    likely = [max((one.probability or 0.0 for one in of), default=0.0) for of in judged]
    for (question, right), followed, read, document in zip(block, found, evidence, likely):

        def ask(rows, names, answer, ids):
            is_right = [not right.isdisjoint(map(fold, of)) for of in names]
            # Of the probabilities of those looked at some is left.
            whole = dataclasses.replace(answer, store=kb.store, question=question)
            best = answer.entities[:LOOKED_AT].tolist()
            kept = np.array([left(whole, one) if one in best else 1.0 for one in ids])
            return Asked(rows, np.array(is_right, bool), bool(right), kept, document)

        entities = followed.answer.entities.tolist()
        rows = answerer.followed_features(question, followed)
        name_of = kb.vocab.names
        asked_of = {False: ask(rows, [[name_of[i]] for i in entities], followed.answer, entities)}
        if read is not None:
            candidates = answerer.candidates(question, followed, read)
            answer = answerer.score(question, followed, read)
            ids = [
                one.entity if one.entity >= 0 else -1 - answer.phrases.index(one.text)
                for one in candidates
            ]
            names = [
                [one.text, *([name_of[i]] if i >= 0 else [])] for one, i in zip(candidates, ids)
            ]
            rows = features(candidates, read, followed.path)
            asked_of[True] = ask(rows, names, answer, ids)
        yield asked_of


def fit_to(sets: Sets, has_reader: bool) -> dict[str, float]:
    """The weights fitted to the answers of all sets, each of which counts alike.

    Without the reader they are fitted to first answers, and those of `share` and `fit` are kept.
    """
    known = calibration.READ if has_reader else calibration.FOLLOWED
    fixed = {} if has_reader else {name: known[name] for name in ('share', 'fit')}
    most = None if has_reader else 1
    shown = [(number, one) for number, of in enumerate(sets.values()) for one in of]
    rows = np.concatenate([one.features[:most] for _, one in shown])
    right = np.concatenate([one.right[:most] for _, one in shown])
    groups = np.concatenate([np.full(len(one.right[:most]), number) for number, one in shown])
    names = [name for name in known if name not in ('bias', *fixed)]
    return fit(rows, right, groups, names, fixed)


def fit(features, right, groups, names: Sequence[str], fixed: Mapping) -> dict[str, float]:
    """The weights of `names`, beside `fixed` ones, that fit `right` [n] best, less an L2 penalty.

    Each set of `groups` [n] counts alike, whatever its size.
    """
    chosen = [calibration.FEATURES.index(name) for name in names]
    offset = features @ np.array([fixed.get(name, 0.0) for name in calibration.FEATURES])
    _, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
    share = 1 / counts[group] / len(counts)
    bias, weights = logistic(features[:, chosen], right, DECAY, share, offset)
    return {'bias': bias, **fixed, **dict(zip(names, weights))}


def logistic(
    rows: np.ndarray, right: np.ndarray, decay: float, share: np.ndarray, offset: np.ndarray | float
) -> tuple[float, list[float]]:
    """Bias and weights of a logistic regression of `right` [n] on rows [n, f].

    `share` [n] is how much each row counts; `offset` is added to the log-odds.
    """
    mean, spread = rows.mean(0), rows.std(0) + 1e-6
    x = np.column_stack([np.ones(len(rows)), (rows - mean) / spread])
    sign = np.where(right, 1, -1)

    def loss(weights):
        odds = sign * (x @ weights + offset)
        penalty = decay * np.concatenate([[0], weights[1:]])
        slope = share * sign * scipy.special.expit(-odds)
        return share @ np.logaddexp(0, -odds) + penalty @ weights, 2 * penalty - slope @ x

    start = np.zeros(x.shape[1])
    bias, *weights = scipy.optimize.minimize(loss, start, jac=True, method='L-BFGS-B').x
    weights = weights / spread
    return float(bias - weights @ mean), weights.tolist()


def scores(asked: Sequence[Asked], chances: Sequence[np.ndarray]) -> dict[str, float]:
    """The scores of a set by the probabilities of the candidates of its questions."""
    ranked = [
        (chance[order], one.right[order])
        for one, chance in zip(asked, chances)
        for order in [np.argsort(-chance, kind='stable')]
    ]
    best = np.array([chance[0] if len(chance) else 0.0 for chance, _ in ranked])
    first, five = (np.array([right[:k].any() for _, right in ranked], bool) for k in (1, 5))
    known, sure = np.array([one.answerable for one in asked], bool), best >= calibration.SURE
    found = np.array([one.evidence >= calibration.SURE for one in asked])
    measured = {
        'hits@1': first[known],
        'hits@5': five[known],
        'sure': sure[known],
        'sure_right': first[known & sure],
        'right_sure': sure[known & first],
        'unanswerable_sure': sure[~known],
        'evidence': found[known],
        'false_evidence': found[~known],
    }
    told = {name: round(float(of.mean()), 3) for name, of in measured.items() if of.size}
    # Nothing that is unanswerable is right.
    for name, of in {'ece': known, 'ece_of_all': np.ones_like(known)}.items():
        told[name] = round(calibration_error(best[of], first[of]), 3) if of.any() else None
    return {'questions': int(known.sum()), **told}


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: mean gap between probability and share of right, in bins."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [abs((right - probabilities)[bins == number].sum()) for number in range(BINS)]
    return float(sum(gaps)) / len(right)


if __name__ == '__main__':
    subjects = {'sets': write, 'weights': measure, 'ranking': rank}
    made = {'sets': list(SETS), 'data': DATA}
    made |= {'folder': pathlib.Path('sets'), 'questions': 120, 'documents': 320}
    run(__doc__, subjects, reader=False, **made)
