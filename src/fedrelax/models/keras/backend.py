"""Keras itself: with which backend it is imported, how it is seeded, and on how many threads."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedrelax.extras import need


def load_keras(backend: str = "torch") -> Any:
    """Return the module ``keras``.

    Where nothing else is said (by ``KERAS_BACKEND``, or by an import before this one), Keras gets the
    backend that is named here, if that is installed.
    """
    if "keras" not in sys.modules and find_spec(backend) is not None:
        os.environ.setdefault("KERAS_BACKEND", backend)
    return need("keras", "keras")


@contextmanager
def steady(seed: int) -> Iterator[None]:
    """Within, Keras draws from ``seed`` and computes with one thread; afterwards all is as before.

    Keras draws from the global generators of Python, numpy and its backend.
    """
    from threadpoolctl import threadpool_limits

    keras = load_keras()
    numbers, arrays = random.getstate(), np.random.get_state()
    names = ("global_random_seed", "global_seed_generator")
    state = keras.src.backend.common.global_state
    known = {name: state.get_global_attribute(name) for name in names}
    torch = sys.modules.get("torch")
    drawn = None if torch is None else torch.get_rng_state()
    try:
        with threadpool_limits(1):
            keras.utils.set_random_seed(seed)
            yield
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)
        for name, value in known.items():
            state.set_global_attribute(name, value)
        if torch is not None:
            torch.set_rng_state(drawn)
