"""The reader: its examples, training in three stages, and the released folder.

Examples come from public questions and labelled sentences.

The first stage reads single sentences and short passages, the second what `opql retrieve` finds for
questions of several hops, the third all kinds, with whole documents that do not state what they are
asked for, and films. Three of ten of the questions of several hops are left out, by their ids: the
weights of `kb.calibration` are fitted to them, and figures are of them.
"""

import functools
import pathlib
import tempfile
import zlib

import numpy as np

from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.questions import parse_bracketed
from opql_jax.data import reading_examples
from opql_jax.datasets import docred, relation_corpora
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.evidence_finder import PASSAGES
from opql_jax.recipes import retrieval
from opql_jax.recipes.encoder import CORPORA
from opql_jax.recipes.recipe import (
    KB,
    Function,
    Options,
    Output,
    Recipe,
    Step,
    prepare,
    stage,
    train,
)

# Examples of the first stage, of each kind, and those of them that the second stage and the third
# read again.
SENTENCES, LABELLED, MADE = 9000, 10000, 4000
AGAIN, AGAIN_LATER = 4000, 5500
# Examples of the third stage: of whole documents, and of questions on films for each number of
# hops.
DOCUMENTS, FILMS, FILM_HOPS = 2500, 1500, (1, 2)
CARD = 'docs/reader_card.md'
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
# Documents that a question of the second stage is read with are drawn from so many.
_RETRIEVED = 12


def is_left_out(question_id: str) -> bool:
    """Whether a question of several hops is left out of training."""
    return zlib.crc32(question_id.encode()) % 10 < 3


def _count(percent: float, number: int) -> int:
    return max(_FEWEST, round(number * percent / 100))


def first_examples(
    sentences: str, labelled: tuple[str, ...], names: str, output: str, percent: float, seed: int
) -> dict[str, int]:
    """Writes the examples of the first stage; returns how many there are."""
    rng = np.random.default_rng(seed)
    count = functools.partial(_count, percent)
    stated = relation_corpora.read(labelled, names)
    people, works = (
        reading_examples.names_of(stated, relations) for relations in (_OF_PEOPLE, _OF_WORKS)
    )
    examples = [
        *reading_examples.from_sentence_questions(sentences, rng, count(SENTENCES)),
        *reading_examples.from_labelled(stated, rng, count(LABELLED)),
        *reading_examples.made(people, works, rng, count(MADE)),
    ]
    write_json_lines(output, (example._asdict() for example in examples))
    return {'examples': len(examples)}


def second_examples(
    first: str, sets: tuple[str, ...], out: str, output: str, percent: float, seed: int
) -> dict[str, int]:
    """Writes the examples of the second stage; returns how many there are.

    Args:
        first: the examples of the first stage, of which some are read again.
        sets: of questions, with their documents in `text-SET` and the knowledge base of these in
            `kb-SET` of the folder `out`.
        output: the file.
    """
    rng = np.random.default_rng(seed)
    before = list(reading_examples.read_examples(first))
    examples = [before[i] for i in rng.permutation(len(before))[: _count(percent, AGAIN)]]
    for name in sets:
        text = pathlib.Path(out, f'text-{name}')
        documents = {
            record['id']: (record['title'], record['text'])
            for record in retrieval.records(text / 'documents.jsonl')
        }
        questions = [
            record
            for record in retrieval.records(text / 'questions.jsonl')
            if not is_left_out(record['id'])
        ]
        with open_kb(pathlib.Path(out, f'kb-{name}')) as kb:
            found = kb.retrieve([question['question'] for question in questions], _RETRIEVED)
        retrieved = {
            question['id']: [each.document for each in of] for question, of in zip(questions, found)
        }
        examples += reading_examples.from_passage_questions(
            name, questions, documents, retrieved, rng
        )
    write_json_lines(output, (example._asdict() for example in examples))
    return {'examples': len(examples)}


def film_documents(source: str, output: str, percent: float) -> None:
    """Writes the first percent of the films as documents `{id, title, text}`."""
    films = retrieval.records(source)
    kept = films[: _count(percent, len(films))]
    write_json_lines(
        output,
        ({'id': str(film['id']), 'title': film['title'], 'text': film['text']} for film in kept),
    )


def in_plain_words(bracketed: str) -> tuple[str, str]:
    """A question such as 'who directed [Inception]' without the brackets, and its topic."""
    text, (start, end) = parse_bracketed(bracketed)
    return text, text[start:end]


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

    Args:
        first, second: the examples of the stages before: some of the first and the questions of
            several hops are read again.
        documents: those whose relations, called by `names`, are all labelled, see `docred`.
        films: a knowledge base of films.
        questions: the folder of MetaQA, of which training questions are read.
    """
    rng = np.random.default_rng(seed + 1)
    count = functools.partial(_count, percent)
    known = docred.read_relations(names)
    with tempfile.TemporaryDirectory() as folder:
        labelled = docred.read_documents(
            documents, known, rejected_path=pathlib.Path(folder, 'rejected.jsonl')
        )
    examples = list(reading_examples.from_documents(labelled, known, rng, count(DOCUMENTS)))
    with open_kb(films) as kb:
        for hops in FILM_HOPS:
            lines = (
                pathlib.Path(questions, f'{hops}-hop', 'train.txt')
                .read_text(encoding='utf-8')
                .splitlines()
            )
            drawn = [
                lines[i].split('\t') for i in rng.permutation(len(lines))[: count(FILMS)].tolist()
            ]
            asked = [
                (*in_plain_words(question), answers.split('|')) for question, answers, *_ in drawn
            ]
            found = kb.retrieve([question for question, *_ in asked], PASSAGES)
            passages = [[(each.title, each.text) for each in of] for of in found]
            examples += reading_examples.from_known_answers('films', asked, passages, rng)
    before = list(reading_examples.read_examples(first))
    examples += [before[i] for i in rng.permutation(len(before))[: count(AGAIN_LATER)]]
    examples += [
        example
        for example in reading_examples.read_examples(second)
        if example.source in retrieval.SETS
    ]
    write_json_lines(output, (example._asdict() for example in examples))
    return {'examples': len(examples)}


# {model: how it is trained, and on what}. ROWS are as often as examples are so long.
STAGES = {
    'reader-1': (
        stage('released', 'reading', 640, 2e-4, {'ROWS': {48: 8, 96: 12, 192: 11, 288: 1}}),
        'first.jsonl',
    ),
    'reader-2': (
        stage(
            'released',
            'reading',
            600,
            1.5e-4,
            {'BERT': None, 'INIT_FROM': 'reader-1', 'ROWS': {96: 5, 192: 3, 448: 4}},
        ),
        'second.jsonl',
    ),
    'reader-3': (
        stage(
            'released',
            'reading',
            1000,
            2e-4,
            {'BERT': None, 'INIT_FROM': 'reader-2', 'ROWS': {96: 4, 192: 2, 320: 5, 448: 4}},
        ),
        'third.jsonl',
    ),
}


def steps(options: Options) -> list[Step | Function]:
    """From the data sets to the folder of the reader."""
    drawn = {'percent': options.percent, 'seed': options.seed}
    first = {
        'sentences': options.file('qa/qamr.jsonl'),
        'labelled': tuple(map(options.file, CORPORA)),
        'names': options.file('redocred/rel_info.json'),
        'output': Output('first.jsonl'),
        **drawn,
    }
    second = {
        'first': Output('first.jsonl'),
        'sets': retrieval.SETS,
        'out': Output(),
        'output': Output('second.jsonl'),
        **drawn,
    }
    films = {
        'source': options.file('metaqa/passages.jsonl'),
        'output': Output('films.jsonl'),
        'percent': options.percent,
    }
    third = {
        'first': Output('first.jsonl'),
        'second': Output('second.jsonl'),
        'documents': options.file('redocred/documents.json'),
        'names': options.file('redocred/rel_info.json'),
        'films': Output('kb-films'),
        'questions': options.file('metaqa'),
        'output': Output('third.jsonl'),
        **drawn,
    }
    indexed = [step for name in retrieval.SETS for step in retrieval.steps_of(options, name)[:2]]
    return [
        Function('first.jsonl', first_examples, first, 'first.jsonl'),
        *indexed,
        Function('second.jsonl', second_examples, second, 'second.jsonl'),
        Function('films.jsonl', film_documents, films, 'films.jsonl'),
        retrieval.indexed(Output('films.jsonl'), 'kb-films'),
        Function('third.jsonl', third_examples, third, 'third.jsonl'),
        prepare(
            'read-text',
            'gin/data/text.gin',
            SOURCES=(Output('text-musique/documents.jsonl'),),
            TOKENIZER='default',
        ),
        *(
            train(name, stage, options, TEXT='read-text', EXAMPLES=Output(examples))
            for name, (stage, examples) in STAGES.items()
        ),
        Step(
            'reader',
            'release',
            ('gin/runs/release.gin',),
            {**KB, 'MODEL': 'reader-3', 'OUTPUT': Output('reader'), 'CARD': CARD},
            'reader',
        ),
    ]


RECIPES = [Recipe('encoder/reader', 'the reader that comes with the package', steps)]
