"""skops, imported without what it does not need.

skops asks scikit-learn for the list of all its models, and scikit-learn finds them by importing every
module that it has. One of these imports PyTorch if it is installed, which takes seconds.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any

HEAVY = ("torch", "jax", "cupy", "dask")
"""Packages that scikit-learn only looks at."""


class _NotNow(MetaPathFinder):
    """Says of heavy packages that they are not there; whoever asks later finds them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse heavy packages, and know nothing of others."""
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
