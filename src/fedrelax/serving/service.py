"""The server of a result: its socket, who may ask, how long connections may wait, and how it stops."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.serving.application import Application
from fedrelax.serving.served import Refusal, sentence_of
from fedrelax.web import HEADERS, host_of, is_address, name_of, server_for

MOST_CONNECTIONS = 256
PATIENCE = 10.0
"""Seconds that a connection may wait for a request, or for its client to read a response."""
GRACE = 5
"""Seconds that requests have to finish when the service is told to stop."""
SHORTEST = 16
"""The fewest letters of a token."""

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
OPEN = "/health"
"""The one path that needs no token."""
TOKEN = (
    "the token is missing or wrong; send the header 'Authorization: Bearer TOKEN' with the token that "
    "was printed at the start"
)


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """Return a listening socket, so that a port already in use is noticed before any work starts.

    Without a token, it must be one that only this machine can reach.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.create_server(place, family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        words = f"{host}:{port} cannot be served ({error}); choose another --port"
        if number == errno.EADDRINUSE:
            words = f"port {port} of {host} is used by another program; choose another with --port"
        elif isinstance(error, UnicodeError | socket.gaierror) or number == errno.EADDRNOTAVAIL:
            words = f"--host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all"
        raise FedRelaxError(words) from error
    if token is None and not is_loopback(made):
        made.close()
        raise FedRelaxError(
            f"--no-token is for this machine only, but --host {host} is for others too; give a "
            "--token, or leave both out to get a random one"
        )
    return made


def is_loopback(listening: socket.socket) -> bool:
    """Tell whether only this machine can reach a socket."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def check_token(token: str) -> None:
    """Refuse a token that can be guessed or that no header can carry."""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise FedRelaxError(
            f"the token needs at least {SHORTEST} letters, digits or symbols, without spaces; leave it "
            "out to get a random one"
        )


def guarded(
    app: Callable[..., Any], token: str | None, host: str, loopback: bool
) -> Callable[..., Any]:
    """Refuse a foreign host with 403 and a missing or wrong token with 401, before anything is read.

    The host is checked because another site's name may be made to point here (DNS rebinding). A service
    for this machine accepts only its own names; one for other machines also accepts numeric addresses.
    """
    names = LOCAL | {host.lower(), f"[{host.lower()}]"}
    if not loopback:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def call(scope: Any, receive: Any, send: Any) -> None:
        name, refusal = name_of(host_of(scope) or ""), None
        if name not in names and (loopback or not is_address(name)):
            words = "the request's Host is not this service; use the address printed at the start"
            refusal = Refusal(403, words)
        elif token is not None and scope["path"] != OPEN and not _knows(scope, token.encode()):
            refusal = Refusal(401, TOKEN)
        if refusal is None:
            await app(scope, receive, send)
            return
        headers = {**HEADERS, **({"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {})}
        responses = need("starlette.responses", "live")
        answer = responses.JSONResponse(sentence_of(refusal), refusal.status, headers)
        await answer(scope, receive, send)

    return call


def _knows(scope: Any, token: bytes) -> bool:
    """Tell whether a request has the token: in its header or, to view pages, in the address."""
    said = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(said) == 1 and said[0][:7].lower() == b"bearer ":
        return hmac.compare_digest(said[0][7:].strip(), token)
    if scope["method"] not in ("GET", "HEAD") or said:
        return False
    given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    return len(given) == 1 and hmac.compare_digest(given[0].encode(), token)


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


class Service:
    """Serves an application on a socket until it is told to stop."""

    def __init__(
        self,
        app: Application,
        listening: socket.socket,
        host: str,
        token: str | None,
        patience: float = PATIENCE,
    ) -> None:
        self._app, self._sockets = app, [listening]
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{listening.getsockname()[1]}/"
        self.page = self.address + ("" if token is None else "?" + urlencode({"token": token}))
        self._server = server_for(
            guarded(app.routes(), token, host, is_loopback(listening)),
            timeout_graceful_shutdown=GRACE,
            limit_concurrency=MOST_CONNECTIONS,
            http=timed_connections(patience, MOST_CONNECTIONS),
        )

    def run(self) -> None:
        """Answer until ``stop``, or until a signal if this is the main thread."""
        try:
            self._server.run(sockets=self._sockets)
        finally:
            self._app.close()

    def stop(self) -> None:
        """Stop: requests under way are answered, new ones are not accepted."""
        self._server.should_exit = True
