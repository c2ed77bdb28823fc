"""The reader, trained in eleven stages on public questions and labelled sentences, and its release.

The first stage reads single sentences and short passages, the second what `opql retrieve` finds for
questions of several hops, the third all kinds, with whole documents that do not state what they are
asked for, and films. The fourth adds all other questions that people asked: about sentences, about
articles, and the steps of those of several hops; the fifth and the sixth read them again, without
short ones. The seventh adds made paragraphs, in which several persons have and do the same kinds of
things; that of the released weights read the first three again in place of the fifth. The eighth
adds documents that were written for this, with questions; the ninth reads them again, the tenth and
the eleventh also sets of documents that name each other. Those of the released weights read the
documents as they came: nearly half in the eighth, the last sixth in the eleventh alone. What is
released is the mean of the weights after the eighth, the tenth and the eleventh. Three of ten of
the questions of several hops are left out, by their ids, and of what was written, by its titles:
the weights of `kb.calibration` are fitted to them, and figures are of them.
"""

import functools
import itertools
import pathlib
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import msgspec
import numpy as np

from opql_jax.corpus.json_lines import read_text, write_json_lines
from opql_jax.corpus.questions import parse_bracketed
from opql_jax.data import linked_questions, made_paragraphs, reading_examples, written_questions
from opql_jax.datasets import docred, labelled_sentences, wikispeedia
from opql_jax.datasets.labelled_sentences import LabelledSentence
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.evidence_finder import PASSAGES
from opql_jax.models import released
from opql_jax.recipes import retrieval
from opql_jax.recipes.encoder import CORPORA
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Function, Options, Output, Step, prepare, release, stage, train

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
CARD = 'docs/reader_card.md'
# The stages of whose weights the released ones are the mean.
IN_MEAN = (8, 10, 11)
# At least so many of each, of however few percent.
_FEWEST = 40
# Relations whose topics are people, or things that are made or led.
_OF_PEOPLE = ('place of birth', 'spouse', 'employer', 'educated at', 'date of birth', 'occupation')
_OF_WORKS = (
    'director',
    'author',
    'composer',
    'performer',
    'architect',
    'developer',
    'publication date',
    'inception',
    'headquarters location',
    'located in the administrative territorial entity',
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


def _count(percent: float, number: int) -> int:
    return max(_FEWEST, round(number * percent / 100))


def _write(path: str, examples: list[reading_examples.ReadingExample]) -> dict[str, int]:
    write_json_lines(path, map(msgspec.structs.asdict, examples))
    return {'examples': len(examples)}


def _drawn(examples: list, most: int, rng: np.random.Generator) -> list:
    """At most `most` of some examples, in a random order."""
    return [examples[i] for i in rng.permutation(len(examples))[:most]]


def _text_and_questions(out: str, name: str) -> tuple[dict[str, tuple[str, str]], list[dict]]:
    """Title and text of each document of a set, by its id, and its questions."""
    documents, asked = (
        retrieval.records(pathlib.Path(out, f'text-{name}', f'{part}.jsonl'))
        for part in ('documents', 'questions')
    )
    return {record['id']: (record['title'], record['text']) for record in documents}, asked


def first_examples(
    sentences: str, labelled: tuple[str, ...], names: str, output: str, percent: float, seed: int
) -> dict[str, int]:
    """Writes the examples of the first stage; returns how many there are."""
    rng = np.random.default_rng(seed)
    count = functools.partial(_count, percent)
    stated = labelled_sentences.read_corpora(labelled, names)
    people = reading_examples.names_of(stated, _OF_PEOPLE)
    works = reading_examples.names_of(stated, _OF_WORKS)
    examples = [
        *reading_examples.from_sentence_questions(sentences, rng, count(SENTENCES)),
        *reading_examples.from_labelled(stated, rng, count(LABELLED)),
        *reading_examples.made(people, works, rng, count(MADE)),
    ]
    return _write(output, examples)


def second_examples(
    first: str, sets: tuple[str, ...], out: str, output: str, percent: float, seed: int
) -> dict[str, int]:
    """Writes the examples of the second stage; returns how many there are.

    Some of the `first` stage are read again. The documents of each of the `sets` of questions are
    in `text-SET`, and the knowledge base of these in `kb-SET`, of the folder `out`.
    """
    rng = np.random.default_rng(seed)
    before = list(reading_examples.read_examples(first))
    examples = _drawn(before, _count(percent, AGAIN), rng)
    for name in sets:
        documents, asked = _text_and_questions(out, name)
        asked = [question for question in asked if not is_left_out(question['id'])]
        with open_kb(pathlib.Path(out, f'kb-{name}')) as kb:
            found = kb.retrieve([question['question'] for question in asked], _RETRIEVED)
        retrieved = {q['id']: [each.document for each in of] for q, of in zip(asked, found)}
        examples += reading_examples.from_passage_questions(name, asked, documents, retrieved, rng)
    return _write(output, examples)


def film_documents(source: str, output: str, percent: float) -> None:
    """Writes the first percent of the films as documents `{id, title, text}`."""
    films = retrieval.records(source)
    kept = films[: _count(percent, len(films))]
    document = lambda film: {'id': str(film['id']), 'title': film['title'], 'text': film['text']}
    write_json_lines(output, map(document, kept))


def in_plain_words(bracketed: str) -> tuple[str, str]:
    """A question such as 'who directed [Inception]' without the brackets, and its topic."""
    text, (start, end) = parse_bracketed(bracketed)
    return text, text[start:end]


def _of_several_hops(second: str) -> Iterator[reading_examples.ReadingExample]:
    """The examples of the `second` stage that are questions of several hops."""
    examples = reading_examples.read_examples(second)
    return (example for example in examples if example.source in retrieval.SETS)


def third_examples(
    first: str,
    second: str,
    documents: str,
    names: str,
    films: str,
    questions: str,
    output: str,
    percent: float,
    seed: int,
) -> dict[str, int]:
    """Writes the examples of the third stage; returns how many there are.

    Some of the `first` stage and the questions of several hops of the `second` are read again.
    `documents` are those whose relations, called by `names`, are all labelled (`docred`), `films`
    is a knowledge base, and `questions` the folder of MetaQA.
    """
    rng = np.random.default_rng(seed + 1)
    count = functools.partial(_count, percent)
    known = docred.read_relations(names)
    with tempfile.TemporaryDirectory() as folder:
        rejected = pathlib.Path(folder, 'rejected.jsonl')
        labelled = docred.read_documents(documents, known, rejected_path=rejected)
    examples = list(reading_examples.from_documents(labelled, known, rng, count(DOCUMENTS)))
    with open_kb(films) as kb:
        for hops in FILM_HOPS:
            file = pathlib.Path(questions, f'{hops}-hop', 'train.txt')
            lines = file.read_text(encoding='utf-8').splitlines()
            order = rng.permutation(len(lines))[: count(FILMS)].tolist()
            drawn = [lines[i].split('\t') for i in order]
            asked = [(*in_plain_words(text), answers.split('|')) for text, answers, *_ in drawn]
            found = kb.retrieve([question for question, *_ in asked], PASSAGES)
            passages = [[(each.title, each.text) for each in of] for of in found]
            examples += reading_examples.from_known_answers('films', asked, passages, rng)
    before = list(reading_examples.read_examples(first))
    examples += _drawn(before, count(AGAIN_LATER), rng)
    return _write(output, [*examples, *_of_several_hops(second)])


def later_examples(
    sentences: str,
    fewest_words: int,
    third: str,
    sets: tuple[str, ...],
    out: str,
    articles: str,
    questions: str,
    output: str,
    percent: float,
    seed: int,
) -> dict[str, int]:
    """Writes the examples of the fourth stage or the fifth; returns how many there are.

    All questions about single `sentences` are read that have `fewest_words`, some examples of the
    `third` stage, and the steps of the first set's questions (see `second_examples`). `articles` is
    the folder of Wikispeedia, `questions` are `{question, topic, answers}` of WebQuestionsSP.
    """
    rng = np.random.default_rng(seed + 1 + fewest_words)
    count = functools.partial(_count, percent)
    before = list(reading_examples.read_examples(third))
    of = lambda *sources: [example for example in before if example.source in sources]
    several = of(*retrieval.SETS)
    examples = [
        *reading_examples.from_sentence_questions(
            sentences, rng, count(ALL_SENTENCES), fewest_words
        ),
        *(several * 2),
        *_drawn(of('films'), count(FILMS_AGAIN), rng),
        *_drawn(of('documents', 'labelled', 'made'), count(OTHERS_AGAIN), rng),
    ]
    documents, asked = _text_and_questions(out, sets[0])
    steps_of = lambda question: set(zip(question.get('decomposition', ()), question['supporting']))
    # Questions share steps.
    held_out = set().union(*(steps_of(each) for each in asked if is_left_out(each['id'])))
    kept = [
        each
        for each in asked
        if not is_left_out(each['id']) and held_out.isdisjoint(steps_of(each))
    ]
    examples += 3 * list(reading_examples.from_sub_questions(kept, documents, rng))
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
    examples += 2 * list(reading_examples.from_articles(named, about, rng))
    return _write(output, examples)


def _surnames(stated: Sequence[LabelledSentence], relations: Sequence[str]) -> list[str]:
    """The last words of the topics of some relations that are two words."""
    names = reading_examples.names_of(stated, relations)
    return sorted({name.split()[-1] for name in names if _IN_TWO_WORDS.fullmatch(name)})


def _places(stated: Sequence[LabelledSentence], relations: Sequence[str]) -> list[str]:
    """The targets of some relations that are one word."""
    found = {each.text[slice(*each.target)] for each in stated if each.relation in relations}
    return sorted(filter(_IN_ONE_WORD.fullmatch, found))


def seventh_examples(
    fifth: str, labelled: tuple[str, ...], names: str, output: str, percent: float, seed: int
) -> dict[str, int]:
    """Writes the examples of the seventh stage; returns how many there are.

    Some of the `fifth` stage are read again. Surnames and places of made paragraphs are those of
    the `labelled` sentences.
    """
    rng = np.random.default_rng(seed + 2)
    stated = labelled_sentences.read_corpora(labelled, names)
    every = tuple({each.relation for each in stated})
    # Small corpora may state other relations alone.
    surnames, places = (
        found(stated, relations) or found(stated, every)
        for found, relations in ((_surnames, _OF_PEOPLE), (_places, _OF_PLACES))
    )
    made = made_paragraphs.paragraphs(surnames, places, rng, _count(percent, PARAGRAPHS))
    again = _drawn(list(reading_examples.read_examples(fifth)), _count(percent, FIFTH_AGAIN), rng)
    return _write(output, [*made, *again])


def _written_documents() -> list[written_questions.WrittenDocument]:
    """What was written with questions, but for what is left out."""
    return [each for each in written_questions.documents() if not is_left_out(each.title)]


def eighth_examples(seventh: str, output: str, percent: float, seed: int) -> dict[str, int]:
    """Writes the examples of the eighth stage; returns how many there are.

    Some of the `seventh` stage are read again.
    """
    rng = np.random.default_rng(seed + 3)
    documents = _written_documents()
    documents = documents[: _count(percent, len(documents))]
    written = (written_questions.examples(documents, rng) for _ in range(TIMES_WRITTEN))
    again = list(reading_examples.read_examples(seventh))
    again = _drawn(again, _count(percent, SEVENTH_AGAIN), rng)
    return _write(output, [*itertools.chain(*written), *again])


def tenth_examples(
    second: str, seventh: str, output: str, percent: float, seed: int
) -> dict[str, int]:
    """Writes the examples of the tenth stage; returns how many there are.

    Some of the `seventh` stage are read again, and the questions of several hops of the `second`.
    """
    rng = np.random.default_rng(seed + 4)
    count = functools.partial(_count, percent)
    linked = [each for each in linked_questions.linked_sets() if not is_left_out(each.name)]
    linked = linked[: count(len(linked))]
    times = [list(linked_questions.examples(linked, rng)) for _ in range(TIMES_LINKED)]
    written = list(written_questions.examples(_written_documents(), rng))
    again = list(reading_examples.read_examples(seventh))
    examples = [
        *itertools.chain(*times),
        *_drawn(written, count(WRITTEN_AGAIN), rng),
        *_of_several_hops(second),
        *_drawn(again, count(SEVENTH_AT_LAST), rng),
    ]
    return _write(output, examples)


_ROWS = {48: 4, 72: 5, 96: 5, 128: 7, 192: 9, 320: 5, 448: 5}
_ROWS_WRITTEN = {48: 1, 72: 1, 96: 1, 128: 2, 192: 6, 320: 5, 448: 8}
_ROWS_LINKED = {96: 2, 128: 1, 192: 3, 256: 4, 320: 3, 384: 3, 448: 8}
# {model: how it is trained, and on what}; it begins with the one before. ROWS are as often as
# examples are so long.
STAGES = {
    'reader-1': ((640, 2e-4, {48: 8, 96: 12, 192: 11, 288: 1}), 'first.jsonl'),
    'reader-2': ((600, 1.5e-4, {96: 5, 192: 3, 448: 4}), 'second.jsonl'),
    'reader-3': ((1000, 2e-4, {96: 4, 192: 2, 320: 5, 448: 4}), 'third.jsonl'),
    'reader-4': ((480, 2e-4, _ROWS), 'fourth.jsonl'),
    'reader-5': ((780, 1.5e-4, _ROWS), 'fifth.jsonl'),
    'reader-6': ((720, 1.5e-4, _ROWS), 'fifth.jsonl'),
    'reader-7': (
        (600, 1.2e-4, {48: 3, 72: 6, 96: 6, 128: 8, 192: 8, 320: 3, 448: 4}),
        'seventh.jsonl',
    ),
    'reader-8': ((740, 1.2e-4, _ROWS_WRITTEN), 'eighth.jsonl'),
    'reader-9': ((440, 1.2e-4, _ROWS_WRITTEN), 'eighth.jsonl'),
    'reader-10': ((640, 1.2e-4, _ROWS_LINKED), 'tenth.jsonl'),
    'reader-11': ((470, 1.2e-4, _ROWS_LINKED), 'tenth.jsonl'),
}


def stages(options: Options) -> Iterator[Step]:
    """The stages of training."""
    before: dict[str, Any] = {}
    for name, ((count, rate, rows), examples) in STAGES.items():
        trained = stage('released', 'reading', count, rate, {'ROWS': rows})
        data: dict[str, Any] = {'TEXT': 'read-text', 'EXAMPLES': Output(examples)}
        yield train(name, trained, options, **data, **before)
        before = {'BERT': None, 'INIT_FROM': name}


def mean_weights(folders: tuple[str, ...], output: str) -> dict[str, int]:
    """Writes to `output` the mean of released readers, which reads better than each of them.

    Tokenizer and card are those of the last.
    """
    encoder, *_ = released.read(folders[0], released.READER_FORMAT)
    weights = [released.read(folder, released.READER_FORMAT)[1] for folder in folders]
    tokenizer, card = (
        read_text(pathlib.Path(folders[-1], name)) for name in (released.TOKENIZER, released.CARD)
    )
    mean = jax.tree.map(lambda *of: sum(of) / len(of), *weights)
    released.write(output, encoder, mean, tokenizer, card, released.READER_FORMAT)
    return {'readers': len(folders)}


def steps(options: Options) -> list[Step | Function]:
    """From the data sets to the folder of the reader."""
    drawn = {'percent': options.percent, 'seed': options.seed}
    names, metaqa = options.file('redocred/rel_info.json'), options.file('metaqa')
    file = lambda name: Output(f'{name}.jsonl')
    write = lambda name, function, **arguments: Function(
        f'{name}.jsonl', function, {**arguments, 'output': file(name), **drawn}, f'{name}.jsonl'
    )
    first = {
        'sentences': options.file('qa/qamr.jsonl'),
        'labelled': tuple(map(options.file, CORPORA)),
        'names': names,
    }
    third = {
        'first': file('first'),
        'second': file('second'),
        'documents': options.file('redocred/documents.json'),
        'names': names,
        'films': Output('kb-films'),
        'questions': metaqa,
    }
    later = {
        'sentences': options.file('qa/qamr.jsonl'),
        'third': file('third'),
        'sets': retrieval.SETS,
        'out': Output(),
        'articles': options.file('wikispeedia'),
        'questions': options.file('openqa/webqsp_train.jsonl'),
    }
    text = {'SOURCES': (Output('text-musique/documents.jsonl'),), 'TOKENIZER': 'default'}
    films = {'source': options.file('metaqa/passages.jsonl'), 'output': file('films')}
    seventh = {key: first[key] for key in ('labelled', 'names')} | {'fifth': file('fifth')}
    folders = tuple(Output(f'release-{number}') for number in IN_MEAN)
    mean = {'folders': folders, 'output': Output('reader')}
    return [
        write('first', first_examples, **first),
        *(step for name in retrieval.SETS for step in retrieval.steps_of(options, name)[:2]),
        write('second', second_examples, first=file('first'), sets=retrieval.SETS, out=Output()),
        Function(
            'films.jsonl', film_documents, films | {'percent': options.percent}, 'films.jsonl'
        ),
        retrieval.indexed(file('films'), 'kb-films'),
        write('third', third_examples, **third),
        write('fourth', later_examples, fewest_words=1, **later),
        write('fifth', later_examples, fewest_words=FEWEST_WORDS, **later),
        write('seventh', seventh_examples, **seventh),
        write('eighth', eighth_examples, seventh=file('seventh')),
        write('tenth', tenth_examples, second=file('second'), seventh=file('seventh')),
        prepare('read-text', 'gin/data/text.gin', **text),
        *stages(options),
        *(release(f'reader-{number}', f'release-{number}', CARD) for number in IN_MEAN),
        Function('reader', mean_weights, mean, 'reader'),
    ]


RECIPES = [Recipe('encoder/reader', 'the reader that comes with the package', steps)]
