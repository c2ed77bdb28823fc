"""What a page may change: a text is added, a document is forgotten, and the last change is taken back."""

import os
import secrets
import threading
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request

from opql_jax.core.errors import InputError
from opql_jax.kb import change_text

# Bytes of a form: a text of a few hundred pages.
_LONGEST_FORM = 1 << 20
# Changes that can be taken back.
_REMEMBERED = 20


class _Done(NamedTuple):
    """A change: of which document, and its record before, None if it was not there."""

    document: str
    before: dict | None


class Changes:
    """Changes the knowledge base in a folder, one at a time, and remembers how to take them back.

    Attributes:
        secret: what a form has to hold, so that it is one of a page of ours; a page elsewhere can send forms, but not read ours.
    """

    def __init__(self, folder: str | os.PathLike):
        self.secret = secrets.token_urlsafe(24)
        self._folder, self._done, self._lock = folder, [], threading.Lock()  # type: ignore[var-annotated]

    def add(self, title: str, text: str) -> str:
        """Adds a text, and returns the id of its document."""
        if not title.strip():
            raise InputError('title: missing: the name of what the text is about')
        document = f'added-{secrets.token_hex(4)}'
        with self._lock:
            changed = change_text.add_text(self._folder, [{'id': document, 'title': title.strip(), 'text': text}], processes=1)
            if changed.skipped:
                raise InputError('a document with this text is there already')
            self._remember(_Done(document, None))
        return document

    def forget(self, document: str) -> None:
        """Removes a document."""
        with self._lock, change_text.change(self._folder, processes=1) as changed:
            before = changed.documents.get(document)
            changed.remove(document=document)
            assert before is not None  # else `remove` refuses
            record = {'id': before.id, 'title': before.title, 'text': before.text}
        self._remember(_Done(document, record))

    def undo(self) -> None:
        """Takes the last change back."""
        with self._lock:
            if not self._done:
                raise InputError('nothing was changed here')
            done = self._done[-1]
            if done.before is None:
                change_text.remove_text(self._folder, [done.document], processes=1)
            else:
                change_text.add_text(self._folder, [done.before], processes=1)
            self._done.pop()

    @property
    def last(self) -> str:
        """The document of the last change, in words; '' if there is none that can be taken back."""
        if not self._done:
            return ''
        done = self._done[-1]
        return f'{done.document} was added' if done.before is None else f'{done.before["title"]} was forgotten'

    def _remember(self, done: _Done) -> None:
        self._done[:] = [*self._done, done][-_REMEMBERED:]

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form of ours.

        Raises:
            InputError: it is too long, no form, or none of ours.
        """
        body = b''
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_FORM:
                raise InputError(f'the form has more than {_LONGEST_FORM:,} bytes: use `opql add` for long texts')
        try:
            fields = {
                name: values[0] for name, values in parse_qs(body.decode(), strict_parsing=True, max_num_fields=10).items()
            }
        except ValueError:
            raise InputError('expected the fields of a form') from None
        if not secrets.compare_digest(fields.pop('secret', '').encode(), self.secret.encode()):
            raise InputError('this page is of an earlier start of the server: load it again')
        return fields
