"""One thread for small computations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: more gain nothing here, and sums in another order change last digits.

    PyTorch is told itself, if it is there: once it has been told a number, its matrix products no
    longer heed what its threads are limited to from outside, and waste their time on each other.
    """
    with one_torch_thread(), threadpool_limits(1):
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Compute with one thread in PyTorch, if it is there; next to nothing if it does so already."""
    torch = sys.modules.get("torch")
    before = 1 if torch is None else torch.get_num_threads()
    if torch is None or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
