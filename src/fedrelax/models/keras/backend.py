"""Keras itself: the backend it is imported with, its seed, and its number of threads."""

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

    Unless ``KERAS_BACKEND`` or an earlier import says otherwise, Keras gets the backend named here, if
    that is installed.
    """
    if "keras" not in sys.modules and find_spec(backend) is not None:
        os.environ.setdefault("KERAS_BACKEND", backend)
    return need("keras", "keras")


@contextmanager
def steady(seed: int) -> Iterator[None]:
    """Within this context, Keras draws from ``seed`` and uses one thread.

    Keras draws from the global generators of Python, numpy and its backend. Afterwards those of Python,
    numpy and PyTorch, and Keras's own seed, are as before.
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
