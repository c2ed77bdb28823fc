"""Connections to the explorer: a client that is slow to send or to take holds up nobody else."""

import asyncio
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Connections that are open at a time. One more closes the one that has waited longest.
CONNECTIONS = 200
# Seconds that a connection waits for its client to send the head of a request, to send the body of
# one, and to take a response.
SECONDS = {'head': 10.0, 'body': 30.0, 'response': 30.0}


class Connection(H11Protocol):
    """A connection that is closed if its client takes too long; uvicorn would wait for good.

    It began to wait for its client at `since`, in seconds of `time.monotonic`.
    """

    since = 0.0
    _waits_for: str | None = None
    _timer: asyncio.TimerHandle | None = None
    _is_writable = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()
        ours = [other for other in self.connections if isinstance(other, Connection)]
        others = [other for other in ours if not other.transport.is_closing()]
        waiting = [other for other in others if other._waits_for]
        if len(others) > CONNECTIONS and waiting:
            min(waiting, key=lambda other: other.since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_writable = False
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_writable = True
        self._look()

    def _look(self) -> None:
        """Finds out what the client is to do now."""
        sends = {h11.IDLE: 'head', h11.SEND_BODY: 'body'}.get(self.conn.their_state)
        self._wait_for(sends if self._is_writable else 'response')

    def _wait_for(self, what: str | None) -> None:
        if what == self._waits_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        # The time of a loop is the same for all that it accepts at once.
        self._waits_for, self.since = what, time.monotonic()
        self._timer = self.loop.call_later(SECONDS[what], self.transport.abort) if what else None
