"""Who may ask: requests that name this machine as host and carry the token."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from fedrelax.extras import need
from fedrelax.serving.refusal import Refusal, sentence_of
from fedrelax.web import HEADERS, host_of, is_address, name_of

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
OPEN = "/health"
"""The one path that needs no token."""
TOKEN = (
    "the token is missing or wrong; send the header 'Authorization: Bearer TOKEN' with the token that "
    "was printed at the start"
)


class Guard:
    """Refuses a foreign host with 403 and a missing or wrong token with 401, before anything is read.

    The host is checked because another site's name may be made to point here (DNS rebinding). A service
    for this machine accepts only its own names; one for other machines also accepts numeric addresses.
    """

    def __init__(
        self, app: Callable[..., Any], token: str | None, host: str, loopback: bool
    ) -> None:
        self._app, self._loopback = app, loopback
        self._token = None if token is None else token.encode()
        own = {host.lower(), f"[{host.lower()}]"}
        self._names = LOCAL | own
        if not loopback:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse the request, or hand it on."""
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        headers = dict(HEADERS)
        if refusal.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        responses = need("starlette.responses", "live")
        answer = responses.JSONResponse(sentence_of(refusal), refusal.status, headers)
        await answer(scope, receive, send)

    def _refusal(self, scope: Any) -> Refusal | None:
        host = host_of(scope)
        name = "" if host is None else name_of(host)
        if name not in self._names and (self._loopback or not is_address(name)):
            return Refusal(
                403, "the request's Host is not this service; use the address printed at the start"
            )
        if self._token is None or scope["path"] == OPEN or self._knows(scope):
            return None
        return Refusal(401, TOKEN)

    def _knows(self, scope: Any) -> bool:
        """Tell whether a request has the token: in its header or, to view pages, in the address."""
        assert self._token is not None
        said = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(said) == 1 and said[0][:7].lower() == b"bearer ":
            return hmac.compare_digest(said[0][7:].strip(), self._token)
        if scope["method"] not in ("GET", "HEAD") or said:
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), self._token)
