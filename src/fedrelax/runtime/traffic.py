"""Counting the bytes that travel between this process and its workers."""

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
    """One call to the workers; the first is round 0, in which nodes train alone."""

    placed: int = 0
    """Bytes that stay on the workers: rows and untrained models."""
    sent: int = 0
    """Bytes sent for this call only."""
    received: int = 0
    """Bytes returned by the workers."""


@dataclass
class Traffic:
    """All calls of a run, in order."""

    trips: list[Trip] = field(default_factory=list)
    watch: Callable[[str, Any], None] | None = None
    """Called with "placed", "sent" or "received" and the thing itself."""

    def tell(self, what: str, thing: Any) -> None:
        """Count something that travels in the current call."""
        if self.watch is not None:
            self.watch(what, thing)
        trip = self.trips[-1]
        setattr(trip, what, getattr(trip, what) + size_of(thing))


_present: ContextVar[Traffic | None] = ContextVar("traffic", default=None)


@contextmanager
def counting(watch: Callable[[str, Any], None] | None = None) -> Iterator[Traffic]:
    """Count the bytes of all runs inside the ``with`` block."""
    traffic = Traffic(watch=watch)
    token = _present.set(traffic)
    try:
        yield traffic
    finally:
        _present.reset(token)


def traffic() -> Traffic | None:
    """Return the counter of the current ``counting`` block, if any."""
    return _present.get()


def size_of(thing: Any) -> int:
    """Return how many bytes something takes in transit: arrays as raw buffers, the rest pickled."""
    buffers: list[pickle.PickleBuffer] = []
    text = _cloudpickle().dumps(thing, protocol=5, buffer_callback=buffers.append)
    return len(text) + sum(buffer.raw().nbytes for buffer in buffers)


def _cloudpickle() -> Any:
    """Return cloudpickle, with which joblib, Dask and Ray pickle; joblib bundles a copy."""
    try:
        return import_module("cloudpickle")
    except ModuleNotFoundError:
        return import_module("joblib.externals.cloudpickle")
