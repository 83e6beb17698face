"""Packages that are not always there: import one, or say how to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedrelax.errors import FedRelaxError


def need(module: str, extra: str) -> Any:
    """Import and return ``module``; where it is missing, name the extra that brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise FedRelaxError(
            f"{module} is not installed; pip install 'fedrelax[{extra}]' brings it"
        ) from error
