"""The command `opql`: a knowledge base of one's own text, in three words.

opql index articles/ --out films.kb
opql ask films.kb "who starred in the films directed by Christopher Nolan?"
opql train films.kb questions.jsonl
opql retrieve films.kb --questions questions.jsonl -k 5 --out passages.jsonl
opql add films.kb more/
opql remove films.kb --document articles/inception.txt --entity "Christopher Nolan"
"""

import argparse
import functools
import json
import logging
import os
import sys

from opql_jax.core import preemption
from opql_jax.core.errors import InputError


def main(arguments: list[str] | None = None) -> None:
    """Runs the command; errors of input are told in a line, with exit code 1."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format='%(asctime)s %(message)s', datefmt='%H:%M:%S', stream=sys.stderr)
    os.environ.setdefault('JAX_PLATFORMS', 'cpu')
    preemption.exit_on_signals()
    try:
        options.run(options)
    except (InputError, OSError) as error:
        sys.exit(f'error: {error}')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='opql', description='Ask multi-hop questions of your own text, and see the evidence.')
    commands = parser.add_subparsers(required=True, metavar='COMMAND')

    def command(name: str, run, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    index = command('index', _index, 'make a knowledge base of text: .txt, .md, .jsonl files, and folders of them')
    index.add_argument('sources', nargs='+', metavar='SOURCE', help='a file, or a folder of files')
    index.add_argument('--out', required=True, metavar='KB', help='the folder of the knowledge base')
    index.add_argument(
        '--encoder', default='default', metavar='FOLDER', help='a released encoder, in place of the one that comes along'
    )
    index.add_argument(
        '--max_reject_fraction',
        type=_fraction,
        default=0.01,
        metavar='SHARE',
        help='share of bad files, or lines of a file, above which nothing is made (default: 0.01)',
    )
    index.add_argument(
        '--engine',
        choices=['local', 'spark'],
        default='local',
        help='where text is read and encoded (default: on this machine)',
    )

    ask = command('ask', _ask, 'answer a question, and say where that was read')
    ask.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    ask.add_argument(
        'question',
        metavar='QUESTION',
        help='in plain words, where a topic may be put in [square brackets]; or a query: "Ingrid Solberg . directed . starring"',
    )
    ask.add_argument('--json', action='store_true', help='print JSON')
    ask.add_argument('--top', type=_count, default=5, metavar='N', help='answers to print (default: 5)')

    retrieve = command('retrieve', _retrieve, 'find the passages that answer questions')
    retrieve.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    retrieve.add_argument('--questions', required=True, metavar='FILE', help='JSON Lines: {"id", "question"}')
    retrieve.add_argument('-k', type=_count, default=5, metavar='K', help='passages for each question (default: 5)')
    retrieve.add_argument('--out', required=True, metavar='FILE', help='JSON Lines: {"id", "documents": [ids]}')

    train = command('train', _train, 'learn from questions and their answers how questions are meant')
    train.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    train.add_argument('questions', metavar='FILE', help='JSON Lines: {"id", "question", "answers": [names]}')
    train.add_argument('--most', type=_count, metavar='N', help='questions that are learnt from, at most (default: 2000)')
    train.add_argument('--seed', type=int, default=0, help='of what is drawn of more questions (default: 0)')

    mcp = command(
        'mcp', _mcp, 'offer a knowledge base as tools to a client of the Model Context Protocol, on standard input and output'
    )
    mcp.add_argument('kb', metavar='KB', help='the folder of the knowledge base')

    explore = command('explore', _explore, 'serve a knowledge base as web pages, and as an HTTP API')
    explore.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    explore.add_argument(
        '--host', default='127.0.0.1', help='the address to listen at (default: this machine only); any other needs a token'
    )
    explore.add_argument('--port', type=int, default=8000, help='0 takes a free one (default: 8000)')
    explore.add_argument('--writable', action='store_true', help='pages may add and forget documents')
    explore.add_argument(
        '--token', default=os.environ.get('OPQL_TOKEN'), help='what clients have to know (default: OPQL_TOKEN)'
    )

    add = command('add', _add, 'add text to a knowledge base')
    add.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    add.add_argument('sources', nargs='+', metavar='SOURCE', help='a file, or a folder of files')
    add.add_argument('--replace', action='store_true', help='documents take the place of those with their ids')
    add.add_argument(
        '--max_reject_fraction', type=_fraction, default=0.01, metavar='SHARE', help='as for index (default: 0.01)'
    )

    remove = command('remove', _remove, 'forget documents, or all that is said of entities')
    remove.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    remove.add_argument('--document', nargs='+', default=[], metavar='ID', help='ids of documents')
    remove.add_argument('--entity', nargs='+', default=[], metavar='NAME', help='names of entities')

    compact = command('compact', _compact, 'free the space of what no version needs')
    compact.add_argument('kb', metavar='KB', help='the folder of the knowledge base')

    info = command('info', _info, 'say what is in a knowledge base')
    info.add_argument('kb', metavar='KB', help='the folder of the knowledge base')
    info.add_argument('--json', action='store_true', help='print JSON')
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10**6:
        raise argparse.ArgumentTypeError(f'{text}: give a number of 1 to 1,000,000')
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f'{text}: give a number from 0 to 1')
    return value


def _index(options) -> None:
    from opql_jax.corpus import spark  # here, as `--help` should not wait for JAX
    from opql_jax.kb.index_text import index_text

    make = functools.partial(
        index_text, options.sources, options.out, encoder=options.encoder, max_reject_fraction=options.max_reject_fraction
    )
    if options.engine == 'local':
        make()
        return
    with spark.session('opql index') as session:
        make(map_batches=functools.partial(spark.map_ordered, session))


def _ask(options) -> None:
    from opql_jax.kb.answers import format_answer, to_record
    from opql_jax.kb.query_language import is_query
    from opql_jax.kb.question_plans import out_of_reach
    from opql_jax.kb.virtual_kb import VirtualKB

    kb = VirtualKB.open(options.kb)
    if is_query(options.question):
        members = kb.query(options.question)
        record = lambda: json.dumps(members.to_record(options.top), ensure_ascii=False, allow_nan=False)
        print(record() if options.json else members.explain(top=options.top) or 'no entity belongs to this set')
        return
    question = kb.question(options.question)
    (answer,) = kb.answer([question])
    note = out_of_reach(question.text)
    if options.json:
        record = to_record(kb, question, answer, evidence=options.top) | ({'note': note} if note else {})
        print(json.dumps(record, ensure_ascii=False, allow_nan=False))
        return
    print(f'  ({note})\n' if note else '', end='')
    print(format_answer(kb, question, answer, options.top))


def _retrieve(options) -> None:
    from opql_jax.kb.retrieve import retrieve_file
    from opql_jax.kb.virtual_kb import VirtualKB

    retrieve_file(VirtualKB.open(options.kb), options.questions, options.out, options.k)


def _train(options) -> None:
    from opql_jax.kb.train_questions import MOST, train_questions

    print(train_questions(options.kb, options.questions, most=options.most or MOST, seed=options.seed))


def _mcp(options) -> None:
    from opql_jax.kb.virtual_kb import VirtualKB

    try:
        from opql_jax.integrations import mcp_server
    except ImportError as error:
        raise InputError("opql mcp needs the package mcp: pip install 'opql_jax[mcp]'") from error
    mcp_server.serve(VirtualKB.open(options.kb), os.path.basename(os.path.abspath(options.kb)))


def _explore(options) -> None:
    try:
        from opql_jax.explorer import app
    except ImportError as error:
        raise InputError("opql explore needs the extra app: pip install 'opql_jax[app]'") from error
    app.serve(options.kb, options.host, options.port, options.token, options.writable)


def _add(options) -> None:
    from opql_jax.kb.change_text import add_text

    print(add_text(options.kb, options.sources, replace=options.replace, max_reject_fraction=options.max_reject_fraction))


def _remove(options) -> None:
    from opql_jax.kb.change_text import remove_text

    if not (options.document or options.entity):
        raise InputError('nothing to remove: name a document or an entity (--document, --entity)')
    print(remove_text(options.kb, options.document, options.entity))


def _compact(options) -> None:
    from opql_jax.kb.change_text import compact

    print(f'freed {compact(options.kb) / 1e6:.1f} MB')


def _info(options) -> None:
    from opql_jax.kb.info import describe

    told = describe(options.kb)
    if options.json:
        print(json.dumps(told, ensure_ascii=False))
        return
    for name, value in told.items():
        shown = ', '.join(value.values()) if isinstance(value, dict) else f'{value:,}' if isinstance(value, int) else value
        print(f'{name.replace("_", " "):15} {shown}')


if __name__ == '__main__':
    main()
