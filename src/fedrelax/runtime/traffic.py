"""What travels between this process and its workers, in bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass
class Trip:
    """One call on the workers; round 0, in which nodes train alone, is the first."""

    placed: int = 0
    """Bytes of what is to stay there: rows and untrained models."""
    sent: int = 0
    """Bytes of what goes there for this call only."""
    received: int = 0
    """Bytes that come back."""


@dataclass
class Traffic:
    """All calls of a run, in order."""

    trips: list[Trip] = field(default_factory=list)
    watch: Callable[[str, Any], None] | None = None
    """Called with "placed", "sent" or "received" and the thing itself."""

    def tell(self, what: str, thing: Any) -> None:
        """Count something that travels in the present call."""
        if self.watch is not None:
            self.watch(what, thing)
        trip = self.trips[-1]
        setattr(trip, what, getattr(trip, what) + size_of(thing))


_present: ContextVar[Traffic | None] = ContextVar("traffic", default=None)


@contextmanager
def counting(watch: Callable[[str, Any], None] | None = None) -> Iterator[Traffic]:
    """Count the bytes of all runs inside."""
    traffic = Traffic(watch=watch)
    token = _present.set(traffic)
    try:
        yield traffic
    finally:
        _present.reset(token)


def traffic() -> Traffic | None:
    """Return who is counting, if anybody is."""
    return _present.get()


def size_of(thing: Any) -> int:
    """Return how many bytes something takes on its way: arrays as they are, the rest pickled."""
    buffers: list[pickle.PickleBuffer] = []
    text = _cloudpickle().dumps(thing, protocol=5, buffer_callback=buffers.append)
    return len(text) + sum(buffer.raw().nbytes for buffer in buffers)


def _cloudpickle() -> Any:
    """Return what joblib, Dask and Ray pickle with; older versions of joblib bring it inside."""
    try:
        return import_module("cloudpickle")
    except ModuleNotFoundError:
        return import_module("joblib.externals.cloudpickle")
