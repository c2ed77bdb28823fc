"""A knowledge base of plain text as tools of the Model Context Protocol (extra `mcp`).

A client starts `opql mcp films.kb`, and talks to it over standard input and output. The server
reads nothing but the knowledge base, and changes it only with `--writable`.
"""

import contextlib
import importlib.metadata
import json
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import mcp_types
import pydantic
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from opql_jax.core.errors import InputError, error_message
from opql_jax.kb import paths
from opql_jax.kb.answer_record import path_record
from opql_jax.kb.current import Current

_INSTRUCTIONS = (
    'Facts that were read in a collection of documents. `ask` answers questions of one or several '
    'hops with the sentences that they rest on; `retrieve` finds documents; `facts_of` lists what '
    'was read about an entity; `follow` goes from an entity along a relation in your words. Quote '
    'the sentences when you answer.'
)
# The most that a tool returns, whatever it is asked for: clients put all of it before a language
# model.
_MOST = 50


def serve(folder: str | os.PathLike, writable: bool = False) -> None:
    """Serves a folder's newest version on standard input; clients may add text if `writable`."""
    make_server(Current(folder), writable).run('stdio')


def make_server(current: Current, writable: bool) -> MCPServer:
    """The server of a knowledge base, with its tools; a client is told the words of InputError."""
    name = pathlib.Path(os.path.abspath(current.folder)).name
    version = importlib.metadata.version('opql-jax')
    server = _Server(name, instructions=_INSTRUCTIONS, version=version, log_level='WARNING')

    @server.tool(structured_output=False)
    def ask(question: str, top: int = 3) -> str:
        """Answers a question in plain English, of one or several hops, as JSON.

        Each answer has the probability that it is right, and a path of facts with the sentences
        that state them; `sure` says whether the first is probably right, and `note` what else to
        know.
        """
        with _told():
            return _json(current.kb().find(question).to_record(_limited(top)))

    @server.tool(structured_output=False)
    def retrieve(question: str, k: int = 5) -> str:
        """The documents that together answer a question of one or several hops, as JSON.

        id, title, text, probability that each is needed (low if none answers), and why.
        """
        with _told():
            return _json(current.kb().retrieve(question, _limited(k), read=True).to_record())

    @server.tool(structured_output=False)
    def follow(entity: str, relation: str, inverse: bool = False, top: int = 5) -> str:
        """The entities that an entity has a relation to, in words ('directed', 'was born in').

        `inverse` turns it round.
        """
        with _told():
            found = current.kb().entity(entity).follow(relation, inverse=inverse)
            return _json(found.to_record(_limited(top)))

    @server.tool(structured_output=False)
    def facts_of(entity: str, most: int = 10) -> str:
        """What was read about an entity: facts from it to others, with sentence and document."""
        with _told():
            kb = current.kb()
            (found,) = kb.entity(entity).entities
            facts, count = paths.facts_about(kb.store, found, 0, _limited(most))
            return _json({'facts': path_record(kb.store, facts), 'facts_in_all': count})

    @server.resource('opql://document/{name}', mime_type='text/plain')
    def document(name: str) -> str:
        """The text of a document, by its id (percent-encoded)."""
        with _told(ResourceError):
            return current.kb().prepared.document_text(name)

    if writable:
        changing = threading.Lock()  # as tools run in threads, and a knowledge base has one writer

        @server.tool()
        def add_text(title: str, text: str) -> str:
            """Adds a document, whose title is the name of what it is about, and returns its id.

            What it says can be asked for from then on.
            """
            # As it imports all that makes a knowledge base.
            from opql_jax.kb.text import change_text

            with _told():
                document = change_text.sent_document(title, text)
                with changing:
                    change = change_text.add_text(current.folder, [document], processes=1)
                if change.skipped:
                    raise InputError('a document with this text is there already')
                try:
                    current.newest()
                except (InputError, OSError) as error:
                    said = f'{document["id"]} was added, but the new version cannot be opened: '
                    raise InputError(said + error_message(error)) from None
                return document['id']

    return server


class _Server(MCPServer):
    """An MCPServer that answers lines that are no messages, which the library passes over."""

    async def run_stdio_async(self) -> None:
        async with stdio_server() as (lines, replies), anyio.create_task_group() as group:
            passed, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()

            async def pass_on() -> None:
                async with passed:
                    async for message in lines:
                        if isinstance(message, pydantic.ValidationError):
                            await replies.send(SessionMessage(_refusal(message)))
                        else:
                            await passed.send(message)

            group.start_soon(pass_on)
            served = self._lowlevel_server
            await served.run(messages, replies, served.create_initialization_options())
            group.cancel_scope.cancel()


def _refusal(error: pydantic.ValidationError) -> mcp_types.JSONRPCError:
    """The reply to a line that is no message, with the id of its request if that can be told.

    Half of a surrogate pair, as JavaScript writes it, is no JSON to the library, but to Python.
    """
    wrong = error.errors()[0]
    record, code = wrong['input'], mcp_types.INVALID_REQUEST
    if wrong['type'] == 'json_invalid':
        code = mcp_types.PARSE_ERROR
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(record)
    number = record.get('id') if isinstance(record, dict) else None
    if not isinstance(number, int) and not (isinstance(number, str) and number.isprintable()):
        number = None
    return mcp_types.JSONRPCError(
        jsonrpc='2.0', id=number, error=mcp_types.ErrorData(code=code, message=wrong['msg'])
    )


def _json(record: Mapping[str, Any]) -> str:
    """A record as one line, which is a third shorter than what the library makes of it."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def _limited(count: int) -> int:
    if count < 1:
        raise InputError(f'{count}: ask for at least 1')
    return min(count, _MOST)


@contextlib.contextmanager
def _told(kind: type[Exception] = ToolError) -> Iterator[None]:
    """Tells a client what is wrong with its request, in an error of the kind given."""
    try:
        yield
    except (InputError, OSError) as error:
        raise kind(error_message(error)) from None
