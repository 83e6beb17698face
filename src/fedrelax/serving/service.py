"""The server of a result: a socket that is bound before models are loaded, and a graceful shutdown."""

from __future__ import annotations

import errno
import ipaddress
import socket
from urllib.parse import urlencode

from fedrelax.errors import FedRelaxError
from fedrelax.serving.application import Application
from fedrelax.serving.connections import timed_connections
from fedrelax.serving.guard import Guard
from fedrelax.web import server_for

MOST_CONNECTIONS = 256
PATIENCE = 10.0
"""Seconds that a connection may wait for a request, or for its client to read a response."""
GRACE = 5
"""Seconds that requests have to finish when the service is told to stop."""
SHORTEST = 16
"""The fewest letters of a token."""


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """Return a listening socket, so that a port already in use is noticed before any work starts.

    Without a token, it must be one that only this machine can reach.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise FedRelaxError(
            f"--host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all"
        ) from error
    made = socket.socket(family, kind)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(128)
    except OSError as error:
        made.close()
        raise FedRelaxError(_why_not(host, port, error)) from error
    if token is None and not is_loopback(made):
        made.close()
        raise FedRelaxError(
            f"--no-token is for this machine only, but --host {host} is for others too; give a "
            "--token, or leave both out to get a random one"
        )
    return made


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is used by another program; choose another with --port"
    if error.errno == errno.EACCES:
        return f"you may not use port {port} of {host}; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"--host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all"
        )
    return f"{host}:{port} cannot be served ({error.strerror or error}); choose another --port"


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
        loopback = is_loopback(listening)
        self._app, self._sockets = app, [listening]
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{listening.getsockname()[1]}/"
        self.page = self.address + ("" if token is None else "?" + urlencode({"token": token}))
        self._server = server_for(
            Guard(app.routes(), token, host, loopback),
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
