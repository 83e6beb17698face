"""One thread for small computations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: more gain nothing here, and sums in another order change last digits.

    PyTorch, if loaded, is limited by its own setting: once that has been set, its matrix products
    ignore limits from outside, and its threads waste their time on each other.
    """
    with one_torch_thread(), threadpool_limits(1):
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Compute with one thread in PyTorch, if it is loaded; costs next to nothing if it does already."""
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
