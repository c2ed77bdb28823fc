"""What each stage of the reader's training reads, see `reader`: examples, as JSON Lines.

The first reads single sentences and short passages, the second what `opql retrieve` finds for
questions of several hops, the third all kinds, with whole documents that do not state what they are
asked for, and films. The fourth adds all other questions that people asked: about sentences, about
articles, and the steps of those of several hops; the fifth leaves out short ones. The seventh adds
made paragraphs, in which several persons have and do the same kinds of things, the eighth documents
that were written for this, with questions, the tenth also sets of documents that name each other.
Three of ten of the questions of several hops are left out, by their ids, and of what was written,
by its titles: the weights of `kb.calibration` are fitted to them, and figures are of them.
"""

import functools
import pathlib
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.questions import parse_bracketed
from opql_jax.data import linked_questions, made_paragraphs, reading_examples, written_questions
from opql_jax.data.reading_examples import ReadingExample, read_examples
from opql_jax.datasets import docred, labelled_sentences, wikispeedia
from opql_jax.datasets.labelled_sentences import LabelledSentence
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.evidence_finder import PASSAGES
from opql_jax.recipes import retrieval

# Examples of the first stage, of each kind, and those of them that the second stage and the third
# read again.
SENTENCES, LABELLED, MADE = 9000, 10000, 4000
ALL_SENTENCES = 32186
# Words that a question about a sentence has at least in the fifth stage: 'What is famous?' is none
# that somebody asks of a text.
FEWEST_WORDS = 6
AGAIN, AGAIN_LATER = 4000, 5500
# Examples of the fourth stage: of films, and of the other kinds of the third.
FILMS_AGAIN, OTHERS_AGAIN = 1500, 4000
# Examples of the third stage: of whole documents, and of questions on films for each number of
# hops.
DOCUMENTS, FILMS, FILM_HOPS = 2500, 1500, (1, 2)
# Examples of the seventh stage: of made paragraphs, and of the fifth.
PARAGRAPHS, FIFTH_AGAIN = 9000, 16000
# How often the eighth reads each question about what was written, and examples of the seventh.
TIMES_WRITTEN, SEVENTH_AGAIN = 2, 5000
# How often the tenth reads each question about linked documents, and examples of the written ones
# and of the seventh.
TIMES_LINKED, WRITTEN_AGAIN, SEVENTH_AT_LAST = 2, 5600, 3000
# At least so many of each, of however few percent.
_FEWEST = 40
# Relations whose topics are people, or things that are made or led.
_OF_PEOPLE = ('place of birth', 'spouse', 'employer', 'educated at', 'date of birth', 'occupation')
_OF_WORKS = tuple(
    'director, author, composer, performer, architect, developer, publication date, inception, '
    'headquarters location, located in the administrative territorial entity'.split(', ')
)
_OF_PLACES = ('place of birth', 'place of death', 'residence', 'headquarters location')
# Places, and names of persons, that paragraphs are made of.
_IN_ONE_WORD = re.compile('[A-Z][a-z]{3,11}')
_IN_TWO_WORDS = re.compile('[A-Z][a-z]+ [A-Z][a-z]{2,10}')
# Documents that a question of the second stage is read with are drawn from so many.
_RETRIEVED = 12


def is_left_out(question_id: str) -> bool:
    """Whether a question of several hops is left out of training."""
    return zlib.crc32(question_id.encode()) % 10 < 3


def at_percent(number: int, percent: float) -> int:
    """That share of a number of examples, but some in any case."""
    return max(_FEWEST, round(number * percent / 100))


class Draw(NamedTuple):
    """How examples are drawn: at random, and what percentage of their numbers."""

    rng: np.random.Generator
    percent: float

    def count(self, number: int) -> int:
        """How many are drawn of a kind of which there are so many at 100 percent."""
        return at_percent(number, self.percent)

    def some(self, examples: Iterable, number: int) -> list:
        """`count(number)` of some examples at most, in a random order."""
        examples = list(examples)
        return [examples[i] for i in self.rng.permutation(len(examples))[: self.count(number)]]


def write_examples(stage: str, output: str, percent: float, seed: int, **data) -> dict[str, int]:
    """Writes the examples of a stage, which `data` make; returns how many there are."""
    read, turn = _STAGES[stage]
    examples = list(read(Draw(np.random.default_rng(seed + turn), percent), **data))
    write_json_lines(output, map(msgspec.structs.asdict, examples))
    return {'examples': len(examples)}


def _text_and_questions(out: str, name: str) -> tuple[dict[str, tuple[str, str]], list[dict]]:
    """Title and text of each document of a set, by its id, and its questions."""
    documents, asked = (
        retrieval.records(pathlib.Path(out, f'text-{name}', f'{part}.jsonl'))
        for part in ('documents', 'questions')
    )
    return {record['id']: (record['title'], record['text']) for record in documents}, asked


def _first(
    draw: Draw, sentences: str, labelled: tuple[str, ...], names: str
) -> Iterator[ReadingExample]:
    """Sentences with questions, sentences with labels, and made ones."""
    rng, count = draw.rng, draw.count
    stated = labelled_sentences.read_corpora(labelled, names)
    people = reading_examples.names_of(stated, _OF_PEOPLE)
    works = reading_examples.names_of(stated, _OF_WORKS)
    yield from reading_examples.from_sentence_questions(sentences, rng, count(SENTENCES))
    yield from reading_examples.from_labelled(stated, rng, count(LABELLED))
    yield from reading_examples.made(people, works, rng, count(MADE))


def _second(draw: Draw, first: str, sets: tuple[str, ...], out: str) -> Iterator[ReadingExample]:
    """Some of the `first` stage again, and questions of several hops.

    The documents of each of the `sets` of questions are in `text-SET`, and the knowledge base of
    these in `kb-SET`, of the folder `out`.
    """
    yield from draw.some(read_examples(first), AGAIN)
    for name in sets:
        documents, asked = _text_and_questions(out, name)
        asked = [question for question in asked if not is_left_out(question['id'])]
        with open_kb(pathlib.Path(out, f'kb-{name}')) as kb:
            found = kb.retrieve([question['question'] for question in asked], _RETRIEVED)
        retrieved = {q['id']: [each.document for each in of] for q, of in zip(asked, found)}
        drawn = name, asked, documents, retrieved, draw.rng
        yield from reading_examples.from_passage_questions(*drawn)


def film_documents(source: str, output: str, percent: float) -> None:
    """Writes the first percent of the films as documents `{id, title, text}`."""
    films = retrieval.records(source)
    kept = films[: at_percent(len(films), percent)]
    document = lambda film: {'id': str(film['id']), 'title': film['title'], 'text': film['text']}
    write_json_lines(output, map(document, kept))


def in_plain_words(bracketed: str) -> tuple[str, str]:
    """A question such as 'who directed [Inception]' without the brackets, and its topic."""
    text, (start, end) = parse_bracketed(bracketed)
    return text, text[start:end]


def _of_several_hops(second: str) -> Iterator[ReadingExample]:
    """The examples of the `second` stage that are questions of several hops."""
    return (example for example in read_examples(second) if example.source in retrieval.SETS)


def _third(
    draw: Draw, first: str, second: str, documents: str, names: str, films: str, questions: str
) -> Iterator[ReadingExample]:
    """Documents, films, some of the `first` stage and the questions of the `second` again.

    `documents` are those whose relations, called by `names`, are all labelled (`docred`), `films`
    is a knowledge base, and `questions` the folder of MetaQA.
    """
    rng, count = draw.rng, draw.count
    known = docred.read_relations(names)
    with tempfile.TemporaryDirectory() as folder:
        rejected = pathlib.Path(folder, 'rejected.jsonl')
        labelled = docred.read_documents(documents, known, rejected_path=rejected)
    yield from reading_examples.from_documents(labelled, known, rng, count(DOCUMENTS))
    with open_kb(films) as kb:
        for hops in FILM_HOPS:
            file = pathlib.Path(questions, f'{hops}-hop', 'train.txt')
            drawn = draw.some(file.read_text(encoding='utf-8').splitlines(), FILMS)
            columns = [line.split('\t') for line in drawn]
            asked = [(*in_plain_words(text), answers.split('|')) for text, answers, *_ in columns]
            found = kb.retrieve([question for question, *_ in asked], PASSAGES)
            passages = [[(each.title, each.text) for each in of] for of in found]
            yield from reading_examples.from_known_answers('films', asked, passages, rng)
    yield from draw.some(read_examples(first), AGAIN_LATER)
    yield from _of_several_hops(second)


def _later(
    draw: Draw,
    sentences: str,
    third: str,
    sets: tuple[str, ...],
    out: str,
    articles: str,
    questions: str,
    fewest_words: int = 1,
) -> Iterator[ReadingExample]:
    """All questions about `sentences` that have `fewest_words`, and what else people asked.

    Some examples of the `third` stage are read again, and the steps of the first set's questions
    (see `_second`). `articles` is the folder of Wikispeedia, `questions` are `{question, topic,
    answers}` of WebQuestionsSP.
    """
    rng, count = draw.rng, draw.count
    before = list(read_examples(third))
    of = lambda *sources: [example for example in before if example.source in sources]
    yield from reading_examples.from_sentence_questions(
        sentences, rng, count(ALL_SENTENCES), fewest_words
    )
    yield from of(*retrieval.SETS) * 2
    yield from draw.some(of('films'), FILMS_AGAIN)
    yield from draw.some(of('documents', 'labelled', 'made'), OTHERS_AGAIN)
    documents, asked = _text_and_questions(out, sets[0])
    steps_of = lambda question: set(zip(question.get('decomposition', ()), question['supporting']))
    # Questions share steps.
    held_out = set().union(*(steps_of(each) for each in asked if is_left_out(each['id'])))
    kept = [
        each
        for each in asked
        if not is_left_out(each['id']) and held_out.isdisjoint(steps_of(each))
    ]
    yield from 3 * list(reading_examples.from_sub_questions(kept, documents, rng))
    about = {
        document.title: document.text.split('\n')
        for document in wikispeedia.documents(articles, wikispeedia.entity_vocab(articles))
    }
    asked = [record for record in retrieval.records(questions) if record['answers']]
    named = [
        (record['question'], title, record['answers'])
        for record in asked[: count(len(asked))]
        if (title := (record['topic'] or {}).get('label')) in about
    ]
    yield from 2 * list(reading_examples.from_articles(named, about, rng))


def _surnames(stated: Sequence[LabelledSentence], relations: Sequence[str]) -> list[str]:
    """The last words of the topics of some relations that are two words."""
    names = reading_examples.names_of(stated, relations)
    return sorted({name.split()[-1] for name in names if _IN_TWO_WORDS.fullmatch(name)})


def _places(stated: Sequence[LabelledSentence], relations: Sequence[str]) -> list[str]:
    """The targets of some relations that are one word."""
    found = {each.text[slice(*each.target)] for each in stated if each.relation in relations}
    return sorted(filter(_IN_ONE_WORD.fullmatch, found))


def _seventh(
    draw: Draw, fifth: str, labelled: tuple[str, ...], names: str
) -> Iterator[ReadingExample]:
    """Made paragraphs, whose surnames and places are of `labelled` sentences; and the `fifth`."""
    stated = labelled_sentences.read_corpora(labelled, names)
    every = tuple({each.relation for each in stated})
    # Small corpora may state other relations alone.
    surnames, places = (
        found(stated, relations) or found(stated, every)
        for found, relations in ((_surnames, _OF_PEOPLE), (_places, _OF_PLACES))
    )
    again = draw.some(read_examples(fifth), FIFTH_AGAIN)
    yield from made_paragraphs.paragraphs(surnames, places, draw.rng, draw.count(PARAGRAPHS))
    yield from again


def _written_documents() -> list[written_questions.WrittenDocument]:
    """What was written with questions, but for what is left out."""
    return [each for each in written_questions.documents() if not is_left_out(each.title)]


def _eighth(draw: Draw, seventh: str) -> Iterator[ReadingExample]:
    """What was written, and some of the `seventh` stage again."""
    documents = _written_documents()
    documents = documents[: draw.count(len(documents))]
    again = draw.some(read_examples(seventh), SEVENTH_AGAIN)
    for _ in range(TIMES_WRITTEN):
        yield from written_questions.examples(documents, draw.rng)
    yield from again


def _tenth(draw: Draw, second: str, seventh: str) -> Iterator[ReadingExample]:
    """What was written, linked or not, and some of the `second` stage and the `seventh` again."""
    linked = [each for each in linked_questions.linked_sets() if not is_left_out(each.name)]
    linked = linked[: draw.count(len(linked))]
    for _ in range(TIMES_LINKED):
        yield from linked_questions.examples(linked, draw.rng)
    written = written_questions.examples(_written_documents(), draw.rng)
    yield from draw.some(written, WRITTEN_AGAIN)
    yield from _of_several_hops(second)
    yield from draw.some(read_examples(seventh), SEVENTH_AT_LAST)


# {stage: what it reads, and what is added to the seed}.
_STAGES: dict[str, tuple[Callable[..., Iterator[ReadingExample]], int]] = {
    'first': (_first, 0),
    'second': (_second, 0),
    'third': (_third, 1),
    'fourth': (_later, 2),
    'fifth': (functools.partial(_later, fewest_words=FEWEST_WORDS), 1 + FEWEST_WORDS),
    'seventh': (_seventh, 2),
    'eighth': (_eighth, 3),
    'tenth': (_tenth, 4),
}
