"""What a page may change: adding a text, forgetting a document or a sentence, and undoing that."""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
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


class Changes:
    """Changes the knowledge base in a folder, and remembers how to take that back.

    One is made after the other, each as a new version. `secret` is what a form of ours holds; a
    page elsewhere can send forms, but not read ours.
    """

    def __init__(self, folder: str | os.PathLike):
        self.secret = secrets.token_urlsafe(24)
        self._folder, self._lock = folder, threading.Lock()
        self._done: list[_Done] = []

    def add(self, title: str, text: str) -> str:
        """Adds a text, and returns the id of its document."""
        document = change_text.sent_document(title, text)
        with self._change() as changed:
            changed.add(document)
            if document['id'] not in changed.documents:
                raise InputError('a document with this text is there already')
        return document['id']

    def forget(self, document: str, digest: str) -> None:
        """Removes a document; `digest` is that of the shown text, see `views.document`."""
        with self._change() as changed:
            there = document in changed.documents
            if not there or views.digest(views.passages_of(changed.before, document)) != digest:
                now = 'has another text now' if there else 'is not there any more'
                now += f': nothing was forgotten; {_LOOK_AGAIN}'
                raise InputError(f'the document {document!r} {now}')
            changed.remove(document=document)

    def forget_sentence(self, sentence: str) -> None:
        """Removes a sentence, wherever it stands."""
        with self._change() as changed:
            try:
                changed.remove(sentence=sentence, whole=True)
            except InputError as error:
                raise InputError(f'{error}\nnothing was forgotten; {_LOOK_AGAIN}') from None

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

    @contextlib.contextmanager
    def _change(self) -> Iterator[change_text.Change]:
        """Yields a change, makes a version of it, and remembers it, if anything differs."""
        with self._lock:
            with change_text.change(self._folder, processes=1) as changed:
                before = dict(changed.documents)
                yield changed
            after = changed.documents
            ids = [id for id in before.keys() | after.keys() if before.get(id) != after.get(id)]
            documents = {id: (before.get(id), after.get(id)) for id in ids}
            removed = [(n, one) for n, one in enumerate(before.values()) if one.id not in after]
            if documents:
                done = _Done(secrets.token_hex(8), documents, removed)
                self._done[:] = [*self._done, done][-_REMEMBERED:]

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
