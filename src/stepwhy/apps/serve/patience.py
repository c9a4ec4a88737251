"""HTTP connections that clients cannot keep open by doing nothing.

Uvicorn waits without limit for the first request of a connection, for the rest of a request, and
for a client that does not read. A few dozen of such connections would use up the limit on
simultaneous requests, and block every page. Uvicorn's own limits are on idle time between two
requests (`timeout_keep_alive`) and on the size of headers (`h11_max_incomplete_event_size`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MOST_CONNECTIONS = 64
"""Connections beyond which requests are refused."""
# When so many are open, those that wait for their client make room for new ones.
_MOST_WAITING = 48


class PatientProtocol(H11Protocol):
    """One connection, closed when its client lets the server wait too long.

    Attributes:
        request_s: Time for the headers of a request, all together.
        body_s: Time for its body, which is a short form.
        send_s: Time in which the client must read at least a part of the answer.
        since_s: Since when it has waited for its client, on the clock of the event loop.
    """

    request_s: ClassVar[float] = 10.0
    body_s: ClassVar[float] = 30.0
    send_s: ClassVar[float] = 30.0

    since_s = 0.0
    _awaited = ""
    _timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for a request; close the oldest waiting connections if there are many."""
        super().connection_made(transport)
        self.since_s = self.loop.time()
        self._wait()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also if its client does not read the end of the answer."""
        super().timeout_keep_alive_handler()
        self._abort_later()

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._abort_later()

    def resume_writing(self) -> None:
        """Continue with the answer."""
        super().resume_writing()
        self._cancel(self._send_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._cancel(self._timer)
        self._cancel(self._send_timer)

    def _wait(self) -> None:
        """Limit the time for what the client has to send, from when it had to."""
        awaited = self._owed()
        if awaited == self._awaited and self._timer is not None:
            return
        self._cancel(self._timer)
        self._awaited, self._timer = awaited, None
        if awaited:
            limit_s = self.request_s if awaited == "request" else self.body_s
            self._timer = self.loop.call_later(limit_s, self._close)
            self.since_s = self.loop.time()

    def _owed(self) -> str:
        """What the client has to send: 'request', 'body', or '' for nothing."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return "request"
        return "body" if cycle.more_body else ""

    def _close(self) -> None:
        self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        """Give up the connection unless the client reads what is left."""
        self._cancel(self._send_timer)
        self._send_timer = self.loop.call_later(self.send_s, self.transport.abort)

    def _make_room(self) -> None:
        excess = len(self.connections) - _MOST_WAITING
        if excess <= 0:
            return
        others: list[Any] = [one for one in self.connections if one is not self]
        waiting = [one for one in others if one.waits_for_client()]
        for one in sorted(waiting, key=lambda one: one.since_s)[:excess]:
            self.connections.discard(one)
            one.transport.abort()

    def waits_for_client(self) -> bool:
        """Whether the server has nothing to do for the connection at the moment."""
        return bool(self._owed()) or self.flow.write_paused

    @staticmethod
    def _cancel(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
