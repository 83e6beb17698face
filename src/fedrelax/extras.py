"""Optional packages: import one, or say how to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedrelax.errors import FedRelaxError


def need(module: str, extra: str) -> Any:
    """Import and return ``module``; if it is missing, name the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise FedRelaxError(
            f"{module} is not installed; pip install 'fedrelax[{extra}]' adds it"
        ) from error


def need_live() -> None:
    """Refuse, before any work starts, if packages of the extra ``live`` are missing."""
    for module in ("starlette", "uvicorn"):
        need(module, "live")
