"""What every local server of this package has in common: headers, uvicorn, and who may ask it."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from fedrelax.extras import need

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]\s/]+)(?::\d{1,5})?")


def check_live() -> None:
    """Refuse, before any work starts, if packages of the extra ``live`` are missing."""
    for module in ("starlette", "uvicorn"):
        need(module, "live")


def server_for(app: Any, **more: Any) -> Any:
    """Return a uvicorn server for an application; it does not identify itself and logs nothing."""
    uvicorn = need("uvicorn", "live")
    config = uvicorn.Config(
        app, ws="none", loop="asyncio", lifespan="off", access_log=False, log_config=None,
        log_level="critical", server_header=False, **{"http": "h11", **more},
    )  # fmt: skip
    return uvicorn.Server(config)


def host_of(scope: Any) -> str | None:
    """Return the one Host that a request names, in lower case; None if there are none or several."""
    hosts = [value.lower().decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return hosts[0] if len(hosts) == 1 else None


def name_of(host: str) -> str:
    """Return a Host without its port, or an empty text if it is not valid.

    >>> name_of("localhost:8000"), name_of("[::1]:80"), name_of("a b")
    ('localhost', '[::1]', '')
    """
    found = HOST.fullmatch(host)
    return "" if found is None else found[1]


def is_address(name: str) -> bool:
    """Tell whether a name is a numeric address, which no foreign name server can redirect here.

    >>> is_address("192.168.0.7"), is_address("[::1]"), is_address("evil.example")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
