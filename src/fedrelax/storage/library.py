"""skops, imported without what it does not need.

skops asks scikit-learn for the list of all its models, and scikit-learn finds them by importing all of
its modules. One of these imports PyTorch if it is installed, which takes seconds.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any

HEAVY = ("torch", "jax", "cupy", "dask")
"""Packages that scikit-learn imports but does not need here."""


class _NotNow(MetaPathFinder):
    """Pretends that heavy packages are not installed; later imports find them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse heavy packages, and leave all others to the next finder."""
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"{name} is not needed here", name=name)


@cache
def skops_io() -> Any:
    """Return the module ``skops.io``."""
    finder = _NotNow()
    sys.meta_path.insert(0, finder)
    try:
        import skops.io
    finally:
        sys.meta_path.remove(finder)
    return skops.io
