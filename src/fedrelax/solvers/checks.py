"""Checks of callbacks and lists of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedrelax.errors import FedRelaxError

HOOKS = ("begin", "wired", "after_round", "end")
"""What a callback is asked."""


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is not a sequence of objects with the hooks of ``Callback``."""
    if isinstance(callbacks, Mapping | str | bytes) or not isinstance(callbacks, Iterable):
        raise FedRelaxError(
            f"callbacks is a {type(callbacks).__name__}; give a list of fedrelax.runtime.Callback "
            "objects"
        )
    for number, callback in enumerate(callbacks):
        if isinstance(callback, type) or not all(hasattr(callback, hook) for hook in HOOKS):
            found = callback if isinstance(callback, type) else type(callback)
            raise FedRelaxError(
                f"callbacks[{number}] is {'the class ' * isinstance(callback, type)}"
                f"{found.__name__}, not a fedrelax.runtime.Callback object"
            )


def check_alone(alone: Any) -> None:
    """Refuse what is not a sequence of nodes."""
    if isinstance(alone, Mapping | str | bytes) or not isinstance(alone, Iterable):
        raise FedRelaxError(f"alone={alone!r} must be a list of nodes")
