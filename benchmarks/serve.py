"""What `opql explore` does under load: users ask and read pages while texts are added and forgotten, and it is killed in changes.

python benchmarks/serve.py --kb films.kb --questions questions.txt --json
python benchmarks/serve.py --users 5 --seconds 10 --updates 2

A copy of the knowledge base, or of one of the sample articles, is served by a process of its own on loopback, where `opql explore` does not
limit how often a client may ask. Each user asks over the API, retrieves, or follows a link of the page read last, and then pauses. Changes go
through the pages, too: each of `--updates` / 2 writers adds a text, with other names in it than others have, and forgets it when it is
there; they begin one after the other, equally spaced over the first half of the time, and do not wait for each other. Then the server is
killed (SIGKILL) at random moments of changes and started again.

`errors` counts responses without status 200, but for those about the added texts while none is there; `retries` requests that were sent
once more, as the server had closed the connection. `torn` counts answers with a fact that
no version has; `stale` those that say what was forgotten before they were asked for, or do not
say all that was added before. After a kill there must be the version before the change or the one after it, never an `other_version`.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from html import unescape
from urllib.parse import unquote_plus, urlencode

import numpy as np
from command_line import make_parser, show
from explorer_process import Client, Server

import opql_jax
from opql_jax.kb import paths
from opql_jax.kb.answer_record import path_record
from opql_jax.kb.index_text import index_text

# The text that comes and goes: about a place that no other text mentions, and two people, in a sentence each.
PLACE = 'Quennevale Hall'
TEXT = f'{PLACE} is a building that was designed by {{0}}. {PLACE} was built by {{1}}.'
ASKED = f'Who designed {PLACE}?'
FIRST_NAMES = 'Ada Bruno Clara Daniel Edith Frank Greta Hugo Irene Jonas'.split()
LAST_NAMES = 'Ashworth Bellamy Carmody Dunstan Ellery Fairfax Gresham Holloway Inglis Jardine'.split()
# What users do, and how often.
ACTIONS = {'ask': 0.3, 'ask for the added text': 0.1, 'retrieve': 0.1, 'page of an answer': 0.2, 'other page': 0.3}
# Of --questions, those that are asked.
MOST_QUESTIONS = 100


def main() -> None:
    """Prints a line for each kind of request, one for the whole load, and one for the kills."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', type=pathlib.Path, help='a knowledge base of plain text')
    parser.add_argument('--questions', type=pathlib.Path, help='a question a line; those of the first page if not given')
    parser.add_argument('--users', type=int, default=50)
    parser.add_argument('--seconds', type=float, default=120)
    parser.add_argument('--updates', type=int, default=20, help='changes while users ask, who ask on until all are done')
    parser.add_argument('--pause', type=float, default=1.0, help='seconds between two requests of a user, on average')
    parser.add_argument('--kills', type=int, default=3, help='times that the server is killed in a change')
    options = parser.parse_args()
    if options.updates % 2:
        parser.error('--updates: give an even number, as each text that is added is forgotten')
    with tempfile.TemporaryDirectory() as folder:
        kb = pathlib.Path(folder, 'served.kb')
        if options.kb:
            shutil.copytree(options.kb, kb)
        else:
            index_text([pathlib.Path(opql_jax.__file__).parent / 'sample' / 'articles'], kb, processes=1)
        versions = Versions(opql_jax.open(kb))
        for line in [*load(kb, versions, options), kill(kb, versions, options.kills)]:
            show(line, options.json)


def text_of(number: int) -> str:
    """The added text 0, 1, ...: the names in it are in none of the 49 before it."""
    return TEXT.format(*names_of(number))


def names_of(number: int) -> tuple[str, str]:
    """The two people in an added text."""
    first, last = FIRST_NAMES[number % 10], number // 10 % 5
    return f'{first} {LAST_NAMES[last]}', f'{first} {LAST_NAMES[last + 5]}'


@dataclasses.dataclass(frozen=True)
class Request:
    """What a user asked for.

    Attributes:
        action: one of ACTIONS.
        path: the address.
        began, ended: when, in seconds.
        status: of the response.
        facts: those of the answer, as the API gives them.
    """

    action: str
    path: str
    began: float
    ended: float
    status: int
    facts: Sequence[dict] = ()

    @property
    def is_of_added(self) -> bool:
        """Whether it is about the added text, so that it may find nothing."""
        words = unquote_plus(self.path)
        names = (name for number in range(50) for name in names_of(number))
        return any(name in words for name in ('added-', PLACE, *names))


@dataclasses.dataclass
class Added:
    """When a text came and went: from the beginning to the end of a change each, infinite for what is to come."""

    adding: float
    added: float = np.inf
    forgetting: float = np.inf
    forgotten: float = np.inf


class Versions:
    """What the versions of the knowledge base say: all have the facts of the first one, and those of the added texts that are there.

    Attributes:
        added: the texts that were added, by their numbers.
    """

    def __init__(self, kb):
        self._kb, self._facts, self._lock = kb, {}, threading.Lock()
        self.added: list[Added] = []

    def add(self, client: Client) -> tuple[int, str]:
        """Adds the next text; returns its number, and its document, '' if no response came."""
        with self._lock:
            number = len(self.added)
            self.added.append(Added(time.monotonic()))
        document = client.add(PLACE, text_of(number))
        if document:
            self.added[number].added = time.monotonic()
        return number, document

    def forget(self, client: Client, number: int, document: str) -> None:
        """Forgets an added text."""
        self.added[number].forgetting = time.monotonic()
        client.forget(document)
        self.added[number].forgotten = time.monotonic()

    def problem(self, request: Request) -> str | None:
        """What is wrong with a response: 'errors', 'torn' or 'stale'; None if nothing is."""
        asks = request.action == 'ask for the added text'
        there = {n for n, text in enumerate(self.added) if text.added < request.began and request.ended < text.forgetting}
        if request.status == 400 and request.is_of_added:
            return 'stale' if asks and there else None
        if request.status != 200:
            return 'errors'
        numbers = {number for fact in request.facts for number in [self._number(fact)] if number is not None}
        if -1 in numbers:
            return 'torn'
        if asks and there - numbers:
            return 'stale'
        seen = [self.added[number] for number in numbers]
        return 'stale' if any(request.ended < text.adding or text.forgotten < request.began for text in seen) else None

    def _number(self, fact: dict) -> int | None:
        """The number of the added text that says a fact; None if the first version has it, -1 if none has."""
        if not fact['document'].startswith('added-'):
            return None if (fact['target'], fact['document'], fact['sentence']) in self._first(fact['topic']) else -1
        for number in range(len(self.added)):
            text = text_of(number)
            if fact['sentence'] in text and fact['topic'] in text and fact['target'] in text:
                return number
        return -1

    def _first(self, topic: str) -> set[tuple]:
        """What the first version says of entities with a name: targets, documents and sentences."""
        if topic not in self._facts:
            entities = [entity for entity, name in enumerate(self._kb.vocab.names) if name == topic]
            facts = [fact for entity in entities for fact in paths.facts_about(self._kb, entity, 0, 10**6)[0]]
            records = path_record(self._kb, facts)
            self._facts[topic] = {(fact['target'], fact['document'], fact['sentence']) for fact in records}
        return self._facts[topic]


class User(threading.Thread):
    """Asks and reads, one request after the other.

    Attributes:
        client: by which it asks.
        requests: what it asked for.
    """

    def __init__(self, client: Client, questions: Sequence[str], seed: int, is_over: Callable[[], bool], pause: float):
        super().__init__(daemon=True)
        self.client, self._questions, self._random = client, questions, random.Random(seed)
        self._is_over, self._pause, self._links = is_over, pause, ['/']
        self.requests: list[Request] = []

    def run(self) -> None:
        while not self._is_over():
            (action,) = self._random.choices([*ACTIONS], [*ACTIONS.values()])
            self.requests.append(self._ask(action))
            time.sleep(self._random.uniform(0, 2 * self._pause))

    def _ask(self, action: str) -> Request:
        asked = urlencode({'q': ASKED if action == 'ask for the added text' else self._random.choice(self._questions)})
        path = {
            'retrieve': f'/api/retrieve?{asked}',
            'page of an answer': f'/?{asked}',
            'other page': self._random.choice(self._links),
        }.get(action, f'/api/ask?{asked}&top=20')
        request, text = send(self.client, action, path)
        if 'page' in action and request.status == 200:
            self._links = ['/', *map(unescape, re.findall(r'href="(/[^"]*)"', text))]
        return request


def send(client: Client, action: str, path: str) -> tuple[Request, str]:
    """The request for a page, and the text that came."""
    began = time.monotonic()
    status, text = client.get(path)
    ended = time.monotonic()
    answers = json.loads(text)['answers'] if status == 200 and path.startswith('/api/ask') else []
    return Request(action, path, began, ended, status, [fact for answer in answers for fact in answer['path']]), text


def load(kb: pathlib.Path, versions: Versions, options: argparse.Namespace) -> list[dict]:
    """Has users ask while texts come and go; returns lines of what was measured."""
    with Server(kb) as server:
        client, changes = server.client(), []
        questions = usable_questions(client, options.questions)
        before, began = server.memory(), time.monotonic()
        is_over = lambda: time.monotonic() > began + options.seconds and not any(map(threading.Thread.is_alive, writers))
        users = [User(server.client(), questions, seed, is_over, options.pause) for seed in range(options.users)]
        count = options.updates // 2

        def write(writer):
            time.sleep(options.seconds / 2 * writer / count)
            started, client = time.monotonic(), server.client()
            number, document = versions.add(client)
            assert document, 'a change failed'
            changes.append(time.monotonic() - started)
            started = time.monotonic()
            versions.forget(client, number, document)
            changes.append(time.monotonic() - started)

        writers = [threading.Thread(target=write, args=(writer,)) for writer in range(count)]
        for thread in [*writers, *users]:
            thread.start()
        for thread in writers:
            thread.join()
        updated = time.monotonic() - began
        for user in users:
            user.join()
        seconds, after = time.monotonic() - began, server.memory()
    assert len(changes) == options.updates, 'a change failed'
    requests = [request for user in users for request in user.requests]
    wrong = [(problem, request) for request in requests if (problem := versions.problem(request))]
    for problem, request in wrong[:10]:
        print(problem, request, file=sys.stderr)
    problems = collections.Counter(problem for problem, _ in wrong)
    whole = {
        'load': f'{options.users} users',
        'seconds': round(seconds, 1),
        'requests_per_second': round(len(requests) / seconds, 1),
        'updates': len(changes),
        'seconds_of_updates': round(updated, 1),
        'update_p50': middle(changes),
        'gb_before': round(before['VmRSS'], 2),
        'gb_after': round(after['VmRSS'], 2),
        'gb_peak': round(after['VmHWM'], 2),
        'retries': sum(user.client.retries for user in users),
        **{name: problems[name] for name in ('errors', 'torn', 'stale')},
    }
    return [*latencies(requests), whole]


def usable_questions(client: Client, file: pathlib.Path | None) -> list[str]:
    """Questions that have an answer: of a file, or those that the first page has for examples."""
    if file:
        asked = file.read_text(encoding='utf-8').splitlines()[:MOST_QUESTIONS]
    else:
        asked = [unescape(text) for text in re.findall(r'<li><a href="/\?q=[^"]*">(.*?)</a>', client.get('/')[1])]
    return [text for text in asked if client.get(f'/api/ask?{urlencode({"q": text})}')[0] == 200]


def latencies(requests: Sequence[Request]) -> list[dict]:
    """A line for each action, and one for all: the percentiles of seconds."""
    lines = []
    for action in (*ACTIONS, 'all'):
        seconds = [request.ended - request.began for request in requests if action in (request.action, 'all')]
        if seconds:
            percentiles = {f'p{p}': round(float(np.percentile(seconds, p)), 4) for p in (50, 95, 99)}
            lines.append({'action': action, 'requests': len(seconds), **percentiles, 'max': round(max(seconds), 4)})
    return lines


def middle(seconds: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return round(float(np.median(seconds)), 2) if seconds else None


def kill(kb: pathlib.Path, versions: Versions, kills: int) -> dict:
    """Kills the server in changes, or soon after; returns how often the next one had the version before, that after, or something else."""
    rng, found, starts, seconds = random.Random(0), collections.Counter(), [], 0.0
    for number in range(kills + 1):
        with Server(kb) as server:
            client, added = server.client(), None
            if number:
                starts.append(server.seconds)
                name, added = version_after_kill(client, versions)
                found[name] += 1
            if number == kills:
                break
            if not number:
                added = versions.add(client)
            started = time.monotonic()
            if added:
                versions.forget(client, *added)
                seconds = time.monotonic() - started
            change = threading.Thread(target=versions.add, args=(server.client(),))
            change.start()
            time.sleep(rng.uniform(0, 1.3 * seconds))
            server.kill()
            change.join()
    return {'kills': kills, **{f'{name}_version': found[name] for name in ('old', 'new', 'other')}, 'start_p50': middle(starts)}


def version_after_kill(client: Client, versions: Versions) -> tuple[str, tuple[int, str] | None]:
    """The version that there is after a change was killed, 'old', 'new' or 'other', and the number and document of the text added, if it was."""
    request, _ = send(client, 'ask for the added text', f'/api/ask?{urlencode({"q": ASKED, "top": 20})}')
    if request.status == 400:
        return 'old', None
    documents = {fact['document'] for fact in request.facts}
    if versions.problem(request) or len(documents) != 1:
        return 'other', None
    return 'new', (len(versions.added) - 1, documents.pop())


if __name__ == '__main__':
    main()
