"""What every local server of this package has in common: socket, headers, who may ask, and for how long.

It needs the extra ``live``: whoever imports it calls ``fedrelax.extras.need_live`` before.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
import threading
import time
from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode, urlsplit

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedrelax.errors import FedRelaxError

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
MOST_CONNECTIONS = 256
PATIENCE = 10.0
"""Seconds that a connection may wait for a request, or for its client to read a response."""
SHORTEST = 16
"""The fewest letters of a token."""
LONGEST = 500
"""The most letters of a sentence, which may quote what was sent."""
FOREIGN = "the request's Host is not this server; use the address printed at the start"
NO_TOKEN = (
    "the token is missing or wrong; send the header 'Authorization: Bearer TOKEN' with the token that "
    "was printed at the start, or open the address printed there"
)


class Refusal(FedRelaxError):  # noqa: N818 - what is said, not what went wrong
    """Why a request is not answered: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def json_answer(value: object, status: int = 200) -> JSONResponse:
    """Return a response with JSON in it."""
    return JSONResponse(value, status, HEADERS)


def refused(error: Exception) -> JSONResponse:
    """Return the response to a refused request: one sentence."""
    text = str(error)
    text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    return json_answer({"error": text}, getattr(error, "status", 422))


def check_token(token: str) -> None:
    """Refuse a token that can be guessed or that no header can carry."""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise FedRelaxError(
            f"the token needs at least {SHORTEST} letters, digits or symbols, without spaces; leave it "
            "out to get a random one"
        )


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """Return a listening socket, so that a port already in use is noticed before any work starts.

    Without a token, it must be one that only this machine can reach.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        raise FedRelaxError(
            f"{host}:{port} cannot be served ({error}); choose another --port, or for --host an address "
            "of this machine: 127.0.0.1, or 0.0.0.0 for all"
        ) from error
    address = ipaddress.ip_address(listening.getsockname()[0].partition("%")[0])
    if token is None and not address.is_loopback:
        listening.close()
        raise FedRelaxError(
            f"--no-token is for this machine only, but --host {host} is for others too; give a "
            "--token, or leave both out to get a random one"
        )
    return listening


class Server:
    """Serves an application until it is told to stop, to those who know the token.

    token : required on all paths but the ``open_paths``; None lets everybody ask.
    grace : seconds that requests have to finish when the server is told to stop.
    patience : seconds that a connection may keep the server waiting.
    """

    def __init__(
        self,
        app: ASGIApp,
        listening: socket.socket,
        host: str,
        token: str | None,
        open_paths: Collection[str] = (),
        grace: int = 5,
        patience: float = PATIENCE,
    ) -> None:
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{listening.getsockname()[1]}/"
        query = "" if token is None else "?" + urlencode({"token": token})
        self.page = self.address + query
        self._socket, own = listening, {"localhost", host.lower(), socket.gethostname().lower()}
        connection = type("Connection", (_TimedConnection,), {"patience": patience, "timers": {}})
        config = uvicorn.Config(
            _guarded(app, token, own, open_paths), http=connection, ws="none", loop="asyncio",
            lifespan="off", access_log=False, log_config=None, log_level="critical", server_header=False,
            limit_concurrency=MOST_CONNECTIONS, timeout_graceful_shutdown=grace,
        )  # fmt: skip
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Answer until ``stop``, or until a signal if this is the main thread."""
        with self._socket:
            self._server.run(sockets=[self._socket])

    def start(self, name: str) -> threading.Thread:
        """Answer in a thread of this name, and return it once requests are taken."""
        thread = threading.Thread(target=self.run, name=name, daemon=True)
        thread.start()
        while thread.is_alive() and not self._server.started:
            time.sleep(0.01)
        return thread

    def stop(self) -> None:
        """Stop: requests under way are answered, new ones are not accepted."""
        self._server.should_exit = True


class _TimedConnection(H11Protocol):
    """A connection with limits on a client that keeps the server waiting.

    A connection waits for its client from when it is opened, or from the end of a response, until a request
    with all its headers has arrived, and while the client does not read what is sent to it. After
    ``patience`` seconds of this it is closed; single bytes in between do not prolong it. If all connections
    are taken, a new one closes the one that has waited longest. Bodies are left to the application.
    """

    patience: float
    timers: dict[_TimedConnection, asyncio.TimerHandle]
    """Of the server's connections that wait, the longest first."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        longest = next(iter(self.timers), None)
        if len(self.connections) >= MOST_CONNECTIONS and longest is not None:
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
        self.wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stop_waiting_if_busy()

    def wait(self) -> None:
        self.stop_waiting()
        self.timers[self] = self.loop.call_later(self.patience, self.transport.abort)

    def stop_waiting_if_busy(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and not self.flow.write_paused:
            self.stop_waiting()

    def stop_waiting(self) -> None:
        timer = self.timers.pop(self, None)
        if timer is not None:
            timer.cancel()


def _guarded(
    app: ASGIApp, token: str | None, names: Collection[str], open_paths: Collection[str]
) -> ASGIApp:
    """Refuse a foreign host with 403 and a missing or wrong token with 401, before anything is read.

    The host is checked because another site's name may be made to point here (DNS rebinding): it must be
    one of the ``names`` of this machine or a numeric address, which no name server can redirect.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        request, answer = Request(scope), None
        if not is_own(request.headers.get("host", ""), names):
            answer = refused(Refusal(403, FOREIGN))
        elif token is not None and scope["path"] not in open_paths and not _knows(request, token):
            answer = refused(Refusal(401, NO_TOKEN))
            answer.headers["WWW-Authenticate"] = "Bearer"
        await (answer or app)(scope, receive, send)

    return call


def _knows(request: Request, token: str) -> bool:
    """Tell whether a request has the token: in its header or, to view pages, in the address."""
    given = request.headers.getlist("authorization")
    if not given and request.method in ("GET", "HEAD"):
        given = [f"Bearer {value}" for value in request.query_params.getlist("token")]
    return len(given) == 1 and hmac.compare_digest(given[0].encode(), f"Bearer {token}".encode())


def is_own(host: str, names: Collection[str]) -> bool:
    """Tell whether a Host, without its port, is one of the names or a numeric address.

    >>> [is_own(host, {"localhost"}) for host in ("LOCALHOST:80", "[::1]:80", "evil.example", "")]
    [True, True, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name not in names:
            ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
