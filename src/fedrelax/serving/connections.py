"""Connections that wait for their client: only for so long, and the oldest makes room for a new one."""

from __future__ import annotations

from typing import Any

from fedrelax.extras import need


def timed_connections(patience: float, most: int) -> Any:
    """Return uvicorn's protocol class with limits on clients that keep the service waiting.

    A connection waits for its client from when it is opened, or from the end of a response, until a request
    with all its headers has arrived, and while the client does not read what is sent to it. After
    ``patience`` seconds of this it is closed; single bytes in between do not prolong it. With ``most``
    connections open, a new one closes the one that has waited longest.
    """
    base: Any = need("uvicorn.protocols.http.h11_impl", "live").H11Protocol
    timers: dict[Any, Any] = {}  # of the connections that wait, the longest first

    class TimedConnection(base):  # type: ignore[misc]
        _unread = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            longest = next(iter(timers), None)
            if len(self.connections) >= most and longest is not None:
                longest.stop_waiting()
                longest.transport.abort()
            self.wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop_waiting()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            self.stop_waiting_if_busy()

        def on_response_complete(self) -> None:
            self.wait()
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = True
            self.wait()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread = False
            self.stop_waiting_if_busy()

        def wait(self) -> None:
            self.stop_waiting()
            timers[self] = self.loop.call_later(patience, self.transport.abort)

        def stop_waiting_if_busy(self) -> None:
            busy = self.cycle is not None and not self.cycle.response_complete
            if busy and not self._unread:
                self.stop_waiting()

        def stop_waiting(self) -> None:
            timer = timers.pop(self, None)
            if timer is not None:
                timer.cancel()

    return TimedConnection
