"""What a page may change: adding a text, forgetting a document or a sentence, and undoing that."""

import collections
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.explorer import views
from opql_jax.explorer.guard import NO_TEXT
from opql_jax.kb.text import change_text

# Changes that can be taken back.
_REMEMBERED = 20
_LOOK_AGAIN = 'this page is of an earlier version: load it again'


class _Done(NamedTuple):
    """A change that was made: its `documents` by id, before and after it, None where there is none.

    Those that it `removed` come first to last, each after how many documents it stood.
    """

    id: str
    documents: dict[str, tuple[Document | None, Document | None]]
    removed: list[tuple[int, Document]]

    def __str__(self) -> str:
        (before, after), *others = self.documents.values()
        if before is None:
            return f'{after.title or after.id} was added' if after else ''
        name = before.title or before.id
        if others:
            return f'a sentence of {name} and of {len(others)} more was forgotten'
        return f'{name} was forgotten' if after is None else f'a sentence of {name} was forgotten'


# What a change does to the documents that there are; the second argument has those of the version
# before, by id.
_Edit = Callable[[change_text.Change, Mapping[str, Document]], None]


class Changes:
    """Changes the knowledge base in a folder, and remembers how to take that back.

    A new version costs what all of the text costs. So one is made at a time, and the changes that
    are asked for meanwhile go into the next one together, in order; one that is refused, as what
    its page showed has changed, leaves the others as they are. `secret` is what a form of ours
    holds; a page elsewhere can send forms, but not read ours.
    """

    def __init__(self, folder: str | os.PathLike):
        self.secret = secrets.token_urlsafe(24)
        self._folder, self._lock = folder, threading.Lock()
        self._waiting: collections.deque[tuple[_Edit, Future[None]]] = collections.deque()
        self._done: list[_Done] = []

    def add(self, title: str, text: str) -> str:
        """Adds a text, and returns the id of its document."""
        document = change_text.sent_document(title, text)

        def edit(changed, _):
            changed.add(document)
            if document['id'] not in changed.documents:
                raise InputError('a document with this text is there already')

        self._make(edit)
        return document['id']

    def forget(self, document: str, digest: str) -> None:
        """Removes a document; `digest` is that of the shown text, see `views.document`."""

        def edit(changed, before):
            passages = views.passages_of(changed.before, document)
            there = changed.documents.get(document)
            if there is None or there != before.get(document) or views.digest(passages) != digest:
                now = 'has another text now' if there else 'is not there any more'
                now += f': nothing was forgotten; {_LOOK_AGAIN}'
                raise InputError(f'the document {document!r} {now}')
            changed.remove(document=document)

        self._make(edit)

    def forget_sentence(self, sentence: str) -> None:
        """Removes a sentence, wherever it stands."""

        def edit(changed, _):
            try:
                changed.remove(sentence=sentence, whole=True)
            except InputError as error:
                raise InputError(f'{error}\nnothing was forgotten; {_LOOK_AGAIN}') from None

        self._make(edit)

    def undo(self, change: str) -> None:
        """Takes back the last change, which a page has shown by its id."""
        with self._lock:
            if not (done := self.last) or done.id != change:
                since = 'another change was made since, or this one was taken back'
                raise InputError(f'{since}: nothing was changed; {_LOOK_AGAIN}')
            with change_text.change(self._folder, processes=1) as changed:
                for id, (before, after) in done.documents.items():
                    if changed.documents.get(id) != after:
                        other = 'was changed by another program since: nothing was taken back'
                        raise InputError(f'the document {id!r} {other}')
                    if before is None:
                        del changed.documents[id]
                    elif after is not None:
                        changed.documents[id] = before
                # Which of two equal answers is first can depend on the order of the documents, so
                # each goes back to its place.
                ordered = list(changed.documents.items())
                for place, document in done.removed:
                    ordered.insert(place, (document.id, document))
                changed.documents = dict(ordered)
            self._done.pop()

    @property
    def last(self) -> _Done | None:
        """The last change that can be taken back."""
        return self._done[-1] if self._done else None

    def _make(self, edit: _Edit) -> None:
        """Makes a change once the version being made is finished; raises what is wrong with it."""
        made: Future[None] = Future()
        self._waiting.append((edit, made))
        with self._lock:
            if not made.done():
                self._make_waiting()
        made.result()

    def _make_waiting(self) -> None:
        """Makes all changes that wait, and tells them of any error: nobody may wait for good."""
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            self._make_together(taken)
        except BaseException as error:
            stopped = RuntimeError('the server stopped: nothing was changed')
            told = error if isinstance(error, Exception) else stopped
            for _, made in taken:
                if not made.done():
                    made.set_exception(told)
            if told is not error:
                raise

    def _make_together(self, taken: Sequence[tuple[_Edit, Future[None]]]) -> None:
        """Makes one version of several changes, none if nothing differs, and remembers them.

        It answers nobody before that: a change can be refused because of one that fails later.
        """
        done, refused = [], {}
        try:
            with change_text.change(self._folder, processes=1) as changed:
                first = dict(changed.documents)
                for edit, made in taken:
                    before = dict(changed.documents)
                    try:
                        edit(changed, first)
                        changed.check_some_left()
                    except Exception as error:
                        changed.documents, refused[made] = before, error
                    else:
                        done += _done_by(before, changed.documents)
        except InputError as error:  # of the version as a whole, such as that no name is left in it
            if len(taken) == 1:
                taken[0][1].set_exception(error)
            else:
                for one in taken:
                    self._make_together([one])
            return
        self._done[:] = [*self._done, *done][-_REMEMBERED:]
        for _, made in taken:
            if made in refused:
                made.set_exception(refused[made])
            else:
                made.set_result(None)

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form of ours; InputError: it is too long, no form, or none of ours."""
        body = b''
        async for part in request.stream():
            body += part
            if len(body) > change_text.LONGEST_TEXT:
                most = f'{change_text.LONGEST_TEXT:,} bytes'
                raise InputError(f'the form has more than {most}: use `opql add` for long texts')
        strict: dict[str, Any] = {'strict_parsing': True, 'errors': 'strict', 'max_num_fields': 10}
        try:
            fields = dict(parse_qsl(body.decode(), **strict))
        except UnicodeError:
            raise InputError(f'the form has {NO_TEXT}') from None
        except ValueError:
            raise InputError('expected the fields of a form') from None
        if not secrets.compare_digest(fields.pop('secret', '').encode(), self.secret.encode()):
            raise InputError('this page is of an earlier start of the server: load it again')
        return fields


def _done_by(before: Mapping[str, Document], after: Mapping[str, Document]) -> list[_Done]:
    """The change from some documents, by id, to others; none if they are the same."""
    changed = [id for id in before.keys() | after.keys() if before.get(id) != after.get(id)]
    documents = {id: (before.get(id), after.get(id)) for id in changed}
    removed = [(place, one) for place, one in enumerate(before.values()) if one.id not in after]
    return [_Done(secrets.token_hex(8), documents, removed)] if documents else []
