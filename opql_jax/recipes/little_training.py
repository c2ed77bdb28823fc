"""One knowledge base of text answers after 0, 32, 256 and all training questions.

Which questions are drawn depends on `--seed`; `--percent` scales the number of questions that are
held out and, where all are learnt from, how many. MetaQA is asked questions of one and of two hops
over its passages. WebQuestionsSP is asked over the beginnings of those articles of Wikispeedia that
are about a topic of a question; every fourth of the questions about these is held out.
"""

import functools
import pathlib

import numpy as np

from opql_jax.corpus.json_lines import read_lines, write_json, write_json_lines
from opql_jax.corpus.name_resolution import fold
from opql_jax.datasets import wikispeedia
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained.evaluate_questions import evaluate
from opql_jax.kb.trained.train_questions import MOST, AnsweredQuestion, learn, read_answered
from opql_jax.recipes.recipe import Function, Options, Output, Recipe
from opql_jax.recipes.retrieval import indexed, records

TRAINED_WITH = (0, 32, 256, 'all')
HELD_OUT = 1000
# Of an article, characters: its lead and some more.
_BEGINNING = 5000


def metaqa_questions(source: str, folder: str) -> None:
    """Writes train.jsonl, 1-hop.jsonl and 2-hop.jsonl, without brackets around topics."""
    train = []
    for hops in ('1-hop', '2-hop'):
        train += _metaqa(source, hops, 'train')
        write_json_lines(pathlib.Path(folder, f'{hops}.jsonl'), _metaqa(source, hops, 'dev'))
    write_json_lines(pathlib.Path(folder, 'train.jsonl'), train)


def _metaqa(source: str, hops: str, part: str) -> list[dict]:
    lines = read_lines(pathlib.Path(source, hops, f'{part}.txt'))
    rows = [line.replace('[', '').replace(']', '').split('\t') for _, line in lines if line]
    return [
        {'id': f'{hops}-{part}-{i}', 'question': question, 'answers': answers.split('|')}
        for i, (question, answers, *_) in enumerate(rows)
    ]


def webqsp_questions(articles: str, questions: str, folder: str) -> None:
    """Writes WebQuestionsSP's text and questions: articles, train and dev.jsonl."""
    asked = [record for record in records(questions) if record['answers']]
    named = [(r['topic'].get('label'), *r['topic'].get('alternatives', ())) for r in asked]
    names = [set(map(fold, filter(None, of))) for of in named]
    wanted, about = set().union(*names), []
    for document in wikispeedia.documents(articles, wikispeedia.entity_vocab(articles)):
        if fold(document.title) in wanted:
            text = document.text[:_BEGINNING]
            whole = text if len(text) == len(document.text) else text[: text.rfind('\n')]
            about.append({'id': document.id, 'title': document.title, 'text': whole})
    titles = {fold(document['title']) for document in about}
    kept = [
        {'id': r['qId'], 'question': r['question'], 'answers': r['answers']}
        for r, of in zip(asked, names)
        if of & titles
    ]
    train = [question for i, question in enumerate(kept) if i % 4]
    for name, written in {'articles': about, 'train': train, 'dev': kept[::4]}.items():
        write_json_lines(pathlib.Path(folder, f'{name}.jsonl'), written)


def answer(
    kb: str,
    folder: str,
    sets: tuple[str, ...],
    trained_with,
    held_out: int,
    most: int,
    seed: int,
    output: str,
) -> dict:
    """Learns from some training questions, and answers the first held-out ones, in a fixed order.

    Returns {set: metrics}, also written to metrics.json in `output`: Hits@1 over all held-out
    questions, their number, that of the questions learnt from, and the seconds that took.
    """
    # Without the reader, which was taught with questions that are held out here.
    opened, metrics = open_kb(kb, reader=False), {}
    used, seconds = 0, 0.0
    if trained_with:
        pairs = [(asked.text, asked.answers) for asked in _read(folder, 'train')]
        order = np.random.default_rng(seed).permutation(len(pairs))
        chosen = [pairs[i] for i in order[: None if trained_with == 'all' else trained_with]]
        opened.text_answerer.map, report = learn(opened, chosen, most, seed)
        used, seconds = report.used, report.seconds
    for name in sets:
        asked = _read(folder, name)
        asked = [asked[i] for i in np.random.default_rng(0).permutation(len(asked))[:held_out]]
        metrics[name] = {
            'hits@1': evaluate(opened, asked).scores()['all']['hits@1'],
            'questions': len(asked),
            'learnt_from': used,
            'seconds': round(seconds, 1),
        }
    write_json(pathlib.Path(output, 'metrics.json'), metrics)
    return metrics


def _read(folder: str, name: str) -> list[AnsweredQuestion]:
    return read_answered(pathlib.Path(folder, f'{name}.jsonl'))


def steps(options: Options, data: str) -> list[Function]:
    """The steps of one point of a curve."""
    folder, kb, trained_with = Output(f'{data}-questions'), Output(f'{data}.kb'), options.size
    if data == 'metaqa':
        text, sets = options.file('metaqa/passages.jsonl'), ('1-hop', '2-hop')
        write, sources = metaqa_questions, {'source': options.file('metaqa')}
    else:
        text, sets = Output(f'{folder.path}/articles.jsonl'), ('dev',)
        write, sources = webqsp_questions, {'articles': options.file('wikispeedia')}
        sources['questions'] = options.file('openqa/webqsp_train.jsonl')
    scaled = lambda count: max(round(count * options.percent / 100), 4)
    name = f'results/{data}-{trained_with}'
    arguments = {
        'kb': kb,
        'folder': folder,
        'sets': sets,
        'trained_with': trained_with,
        'output': Output(name),
        'held_out': scaled(HELD_OUT),
        'most': scaled(MOST) if trained_with == 'all' else MOST,
        'seed': options.seed,
    }
    return [
        Function(folder.path, write, {**sources, 'folder': folder}, folder.path),
        indexed(text, kb.path),
        Function(name, answer, arguments, name),
    ]


RECIPES = [
    Recipe(
        f'little-training/{data}',
        f'plain text and some training questions, {title}',
        functools.partial(steps, data=data),
        {'size': TRAINED_WITH},
    )
    for data, title in (('metaqa', 'MetaQA'), ('webqsp', 'WebQuestionsSP'))
]
