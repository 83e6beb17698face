"""Checks of values that every way into the library shares."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.typing import AnyArray

LARGEST = 1e100
"""Beyond this, sums of squares and their products overflow."""


def are_usable(values: AnyArray) -> bool:
    """Tell whether all numbers are finite and have squares that can be summed."""
    return not values.size or bool(values.min() >= -LARGEST and values.max() <= LARGEST)


def check_sizes(values: AnyArray, name: str | Callable[[int], str]) -> None:
    """Refuse finite numbers whose squares cannot be summed; ``name`` is what column k is called."""
    if values.dtype.kind != "f" or are_usable(values):
        return
    table = values.reshape(len(values), -1)
    large = np.argwhere(np.isfinite(table) & (np.abs(table) > LARGEST))
    if len(large):
        row, column = large[0]
        raise FedRelaxError(
            f"{name if isinstance(name, str) else name(column)} holds {table[row, column]:g} in row {row}; "
            f"squares of numbers beyond {LARGEST:g} are too large to be summed: use another unit, or "
            "correct that row"
        )


RandomState = int | np.random.Generator | None
"""A seed, a generator, or ``None`` for a new seed each time."""


def generator(random_state: RandomState) -> np.random.Generator:
    """Return the generator that ``random_state`` stands for."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise FedRelaxError(
            f"random_state is {random_state!r}; give None, a whole number >= 0 or a Generator"
        ) from None


def check_number(name: str, value: object, least: float, below: float = math.inf) -> None:
    """Refuse what is not a finite number in [least, below)."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not least <= value < below or value > sys.float_info.max:  # type: ignore[operator]
        upper = "" if below == math.inf else f" and less than {below:g}"
        raise FedRelaxError(
            f"{name}={value!r} must be a finite number of at least {least:g}{upper}"
        )


def check_count(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise FedRelaxError(f"{name}={value!r} must be a whole number of at least {least}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is not one of the choices."""
    if value not in choices:
        known = ", ".join(choices)
        raise FedRelaxError(
            f"{name}={value!r} must be one of {known}{did_you_mean(value, choices)}"
        )


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise FedRelaxError(f"{name}={value!r} must be True or False")


HOOKS = ("begin", "wired", "after_round", "end")
"""What a callback is asked."""


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is not a sequence of objects with the hooks of ``Callback``."""
    check_sequence("callbacks", callbacks, "fedrelax.runtime.Callback objects")
    for number, callback in enumerate(callbacks):
        if isinstance(callback, type) or not all(hasattr(callback, hook) for hook in HOOKS):
            raise FedRelaxError(
                f"callbacks[{number}] is {callback!r}, not a fedrelax.runtime.Callback object"
            )


def check_sequence(name: str, values: Any, what: str) -> None:
    """Refuse what is not a sequence of several things."""
    if isinstance(values, Mapping | str | bytes) or not isinstance(values, Iterable):
        raise FedRelaxError(f"{name}={values!r} must be a list of {what}")
