"""The commands of `opql`, each a few lines over a function of `opql_jax.kb`.

Each imports what it needs, so that `opql --help` and completion are quick.
"""

import functools
import logging
import os
import resource
import sys
import time
from collections.abc import Mapping
from typing import Annotated, Literal

import typer

from opql_jax.core import terminal
from opql_jax.core.errors import InputError

# Boxes and colours are for people at a terminal; what is piped has plain lines.
_IS_TERMINAL = sys.stdout.isatty() and sys.stderr.isatty()

app = typer.Typer(
    help='Ask multi-hop questions of your own text, and see the evidence.',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode='rich' if _IS_TERMINAL else None,
    context_settings={'help_option_names': ['-h', '--help']},
)

# For parameters without a default, or whose default goes without saying.
Argument = functools.partial(typer.Argument, show_default=False)
Option = functools.partial(typer.Option, show_default=False)
KB = Annotated[str, Argument(metavar='KB', help='The folder of the knowledge base.')]
Json = Annotated[bool, typer.Option('--json', help='Print JSON.')]
Count = functools.partial(typer.Option, min=1, max=10**6, show_default=True)


def _several(metavar: str, help: str, *names: str):
    """An option that may be repeated."""
    return Option(*names, metavar=metavar, help=f'{help}; repeat it for several.')


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f'opql {version("opql-jax")}')
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option('--debug', help='Show the traceback of an error.')] = False,
    version: Annotated[
        bool,
        typer.Option('--version', help='Show the version.', callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Checks and sets up what all commands need; `main` reads `debug`."""
    _check_address_space()
    logging.basicConfig(level=logging.INFO, handlers=[terminal.log_handler()])


# With less, threads of XLA and of tokenizers cannot start, and end the process with a dump. Two
# cores answer with 1.9 GiB; each core has threads in five pools, which take 22 MiB of it (`VmPeak`
# of `opql ask` with 2 and with 16 threads a pool).
_MIN_ADDRESS_SPACE = (2 << 30) + (32 << 20) * (os.cpu_count() or 1)


def _check_address_space() -> None:
    """Raises InputError if JAX, which is not imported yet, cannot start within `ulimit -v`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _MIN_ADDRESS_SPACE:
        raise InputError(
            f'the address space is limited to {limit >> 20:,} MiB (ulimit -v): '
            f'at least {_MIN_ADDRESS_SPACE >> 20:,} MiB are needed here, and twice as much '
            'to make or change a knowledge base'
        )


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise typer.BadParameter('give a number from 0 to 1')
    return value


_FILES = 'Files, folders of files, or patterns in quotes: "**/*.md".'
Sources = Annotated[list[str], Argument(metavar='SOURCE', help=_FILES)]
MaxRejectFraction = Annotated[
    float,
    typer.Option(
        '--max_reject_fraction',
        metavar='SHARE',
        callback=_share,
        help=(
            'Share of bad files, or lines, rows or articles of a file, above which nothing is '
            'made, from 0 to 1.'
        ),
    ),
]


@app.command()
def index(
    sources: Sources,
    out: Annotated[str, Option(metavar='KB', help='The folder of the knowledge base.')],
    encoder: Annotated[
        str,
        typer.Option(
            metavar='FOLDER', help='A released encoder, in place of the one in the package.'
        ),
    ] = 'default',
    max_reject_fraction: MaxRejectFraction = 0.01,
    engine: Annotated[Literal['local', 'spark'], typer.Option(help='Where it runs.')] = 'local',
    as_json: Json = False,
) -> None:
    """Make a knowledge base of text.

    Reads .txt, .md, .html, .pdf, .eml, .jsonl and .parquet files, dumps of MediaWiki (.xml,
    .xml.bz2, .xml.gz), and folders of them. A run that was killed goes on where it was.
    """
    from opql_jax.kb.text.index_text import index_text

    make = functools.partial(
        index_text, sources, out, encoder=encoder, max_reject_fraction=max_reject_fraction
    )
    started = time.monotonic()
    if engine == 'local':
        make()
    else:
        from opql_jax.corpus import spark

        with spark.session('opql index') as session:
            make(map_batches=functools.partial(spark.map_ordered, session))
    if as_json:
        from opql_jax.kb.info import describe

        _print_record(describe(out), started)


def _print_record(record: Mapping[str, object], started: float) -> None:
    """Prints what a command made as JSON, with the seconds since it started."""
    from opql_jax.cli.display import print_json

    print_json({**record, 'seconds': round(time.monotonic() - started, 3)})


@app.command()
def ask(
    kb: KB,
    question: Annotated[
        str | None,
        Argument(
            metavar='QUESTION',
            help='In plain words, where a topic may be put in [square brackets]; or a query: '
            '"Ingrid Solberg . directed . starring".',
        ),
    ] = None,
    as_json: Json = False,
    top: Annotated[int, Count(metavar='N', help='Answers to print.')] = 5,
    reader: Annotated[
        bool | None,
        Option(
            '--reader/--no-reader',
            help='Whether passages that are found are read, which takes longer; if not said, where '
            'nothing was learnt by `train`.',
        ),
    ] = None,
    hops: Annotated[
        int, Count(metavar='N', help='Relations from the topic to the answer, for a trained model.')
    ] = 1,
    index: Annotated[
        str | None,
        Option(
            metavar='FOLDER', help='An index of the memory, for a trained model to search whole.'
        ),
    ] = None,
) -> None:
    """Answer a question, and say where that was read.

    Without a QUESTION it asks for them at a prompt, or reads one from each line of a pipe.
    """
    from opql_jax.kb.open_kb import open_kb

    if question is not None:
        from opql_jax.cli.display import print_answer

        print_answer(open_kb(kb, reader=reader, index=index), question, top, as_json, hops)
        return
    from opql_jax.cli import prompt

    if sys.stdin.isatty() and not as_json:
        prompt.run_prompt(kb, top, hops, reader=reader, index=index)
    else:
        prompt.answer_lines(open_kb(kb, reader=reader, index=index), sys.stdin, top, as_json, hops)


@app.command()
def retrieve(
    kb: KB,
    question: Annotated[str | None, Argument(metavar='QUESTION', help='A single question.')] = None,
    questions: Annotated[
        str | None, Option(metavar='FILE', help='JSON Lines: {"id", "question"}.')
    ] = None,
    k: Annotated[int, Count('-k', metavar='K', help='Documents for each question.')] = 5,
    out: Annotated[
        str | None, Option(metavar='FILE', help='JSON Lines: {"id", "documents": [ids]}.')
    ] = None,
    reader: Annotated[
        bool | None,
        Option(
            '--reader/--no-reader',
            help='Whether the reader ranks, too, and gives probabilities, which takes longer; if '
            'not said, it does for a QUESTION.',
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the documents that answer questions, best first."""
    from opql_jax.cli.display import print_documents
    from opql_jax.kb.open_kb import open_kb
    from opql_jax.kb.text.retrieve import retrieve_file

    if question is not None and questions is None and out is None:
        print_documents(open_kb(kb).retrieve(question, k, read=reader is not False), as_json)
    elif question is None and questions is not None and out is not None:
        retrieve_file(open_kb(kb), questions, out, k, read=bool(reader))
    else:
        raise typer.BadParameter('give a QUESTION, or else --questions FILE and --out FILE')


_ANSWERED = 'JSON Lines: {"id", "question", "answers": [names]}.'
QuestionFile = Annotated[str, Argument(metavar='QUESTIONS', help=_ANSWERED)]


@app.command()
def train(
    kb: KB,
    questions: QuestionFile,
    most: Annotated[
        int | None, Count(metavar='N', help='Maximum number of training questions. [default: 2000]')
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help='Seed for subsampling.')] = 0,
    as_json: Json = False,
) -> None:
    """Learn from questions and their answers.

    Says what that gained on questions that are left out.
    """
    import dataclasses

    from opql_jax.cli.display import print_json
    from opql_jax.kb.trained.train_questions import MOST, train_questions

    report = train_questions(kb, questions, most=most or MOST, seed=seed)
    print_json(dataclasses.asdict(report)) if as_json else print(report)


@app.command()
def evaluate(
    kb: KB,
    questions: QuestionFile,
    show: Annotated[
        int,
        typer.Option(
            metavar='N', min=0, help='Questions to print of those right, and of those wrong.'
        ),
    ] = 3,
    as_json: Json = False,
) -> None:
    """Score the answers to questions whose answers are known.

    Lines of the file may also have "hops", the number of relations that a question takes; scores
    are then told apart by it.
    """
    from opql_jax.cli.display import print_json
    from opql_jax.kb.trained.evaluate_questions import evaluate_questions

    scores = evaluate_questions(kb, questions)
    print_json(scores.to_record(show)) if as_json else print(scores.to_text(show))


@app.command()
def add(
    kb: KB,
    sources: Sources,
    replace: Annotated[
        bool, typer.Option('--replace', help='Documents take the place of those with their ids.')
    ] = False,
    max_reject_fraction: MaxRejectFraction = 0.01,
    as_json: Json = False,
) -> None:
    """Add text to a knowledge base."""
    from opql_jax.kb.text.change_text import add_text

    started = time.monotonic()
    changed = add_text(kb, sources, replace=replace, max_reject_fraction=max_reject_fraction)
    _print_record(changed.counts(), started) if as_json else print(changed)


@app.command()
def remove(
    kb: KB,
    document: Annotated[list[str] | None, _several('ID', 'The id of a document')] = None,
    entity: Annotated[list[str] | None, _several('NAME', 'The name of an entity')] = None,
    sentence: Annotated[
        list[str] | None, _several('TEXT', 'A sentence, or words that only it has')
    ] = None,
    as_json: Json = False,
) -> None:
    """Forget documents, sentences, or all that is said of entities."""
    if not (document or entity or sentence):
        options = '--document, --entity, --sentence'
        raise InputError(f'nothing to remove: name a document, an entity or a sentence ({options})')
    from opql_jax.kb.text.change_text import remove_text

    started = time.monotonic()
    changed = remove_text(kb, document or [], entity or [], sentence or [])
    _print_record(changed.counts(), started) if as_json else print(changed)


@app.command()
def compact(kb: KB, as_json: Json = False) -> None:
    """Delete unused versions and caches."""
    from opql_jax.kb.text.change_text import compact

    started = time.monotonic()
    freed = compact(kb)
    told = f'freed {freed / 1e6:.1f} MB'
    _print_record({'freed_bytes': freed}, started) if as_json else print(told)


@app.command()
def info(kb: KB, as_json: Json = False) -> None:
    """Say what is in a knowledge base."""
    from opql_jax.cli.display import print_json
    from opql_jax.kb.info import describe

    told = describe(kb)
    if as_json:
        print_json(told)
        return
    for name, value in told.items():
        shown = ', '.join(value.values()) if isinstance(value, dict) else value
        shown = f'{value:,}' if isinstance(value, int) else shown
        print(f'{name.replace("_", " "):15} {terminal.one_line(str(shown))}')


@app.command()
def export(
    kb: KB, out: Annotated[str, Option(metavar='FILE', help='Ends in .csv, .graphml or .nt.')]
) -> None:
    """Write what was read as a table or a graph.

    Each entry comes with the sentence and the document that say it.
    """
    from opql_jax.kb.export import export
    from opql_jax.kb.open_kb import open_kb

    print(f'{export(open_kb(kb), out):,} entries in {terminal.one_line(out)}')


@app.command('serve', help='Another name for explore.')
@app.command()
def explore(
    kb: KB,
    host: Annotated[
        str, typer.Option(help='The address to listen at; any but this machine needs a token.')
    ] = '127.0.0.1',
    port: Annotated[int, typer.Option(min=0, max=65535, help='0 takes a free one.')] = 8000,
    writable: Annotated[
        bool, typer.Option('--writable', help='Pages may add and forget documents.')
    ] = False,
    token: Annotated[str | None, Option(envvar='OPQL_TOKEN', help='Access token.')] = None,
    allow_origin: Annotated[
        list[str] | None,
        _several(
            'ORIGIN',
            'A site whose pages may read /api/, as https://notes.example',
            '--allow_origin',
        ),
    ] = None,
) -> None:
    """Serve web pages of a knowledge base, and an HTTP API."""
    try:
        from opql_jax.explorer.app import serve
    except ImportError as error:
        raise InputError("opql explore needs the extra app: pip install 'opql_jax[app]'") from error
    serve(kb, host, port, token, writable, allow_origin or ())


@app.command()
def mcp(
    kb: KB,
    writable: Annotated[
        bool, typer.Option('--writable', help='Also offer a tool that adds a text.')
    ] = False,
) -> None:
    """Offer a knowledge base as tools of MCP.

    A client of the Model Context Protocol starts this, and talks to it on standard input and
    output.
    """
    try:
        from opql_jax.integrations import mcp_server
    except ImportError as error:
        raise InputError("opql mcp needs the package mcp: pip install 'opql_jax[mcp]'") from error
    mcp_server.serve(kb, writable)


@app.command(
    add_help_option=False,
    context_settings={
        'allow_extra_args': True,
        'ignore_unknown_options': True,
        'help_option_names': [],
    },
)
def recipes(context: typer.Context) -> None:
    """Run the experiments of this project."""
    from opql_jax.recipes.__main__ import main

    main(context.args)
