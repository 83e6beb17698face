"""Packages that come with an extra: imported when they are needed, named when they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedrelax.errors import FedRelaxError


def need(module: str, extra: str) -> Any:
    """Import and return a module, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise FedRelaxError(
            f"{module} is not installed; pip install 'fedrelax[{extra}]' brings it"
        ) from error
