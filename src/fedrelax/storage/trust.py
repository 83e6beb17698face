"""Models on disk, written and read by skops: nothing is ever unpickled.

A skops file names the types that it is made of, and loading makes objects of these types only. The
estimators of scikit-learn are trusted by skops itself. We add classes that scikit-learn defines for
their insides (trees, for instance) and our own models. Whatever else a file names is refused until
the user trusts it by name.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError, listing
from fedrelax.typing import Label

OURS = ("fedrelax.models.", "fedrelax.losses.", "sklearn.")
NEVER = ("sklearn.externals.", "sklearn.utils._testing", "sklearn.conftest", "sklearn.datasets.")


def to_bytes(model: Any) -> bytes:
    """Return a model as the bytes of a skops file."""
    from skops.io import dumps

    return bytes(dumps(model, compression=zipfile.ZIP_DEFLATED))


def from_bytes(data: bytes, trust: Sequence[str]) -> Any:
    """Return the model in a skops file; types that are neither ours nor in ``trust`` are refused."""
    from skops.io import get_untrusted_types, loads

    named = list(get_untrusted_types(data=data))
    refused = [name for name in named if name not in trust and not _is_ours(name)]
    if refused:
        raise FedRelaxError(f"its types are not trusted: {', '.join(sorted(refused))}")
    return loads(data, trusted=named)


def types_in(data: bytes) -> list[str]:
    """Return the types in a skops file that a user has to trust by name."""
    from skops.io import get_untrusted_types

    return sorted(name for name in get_untrusted_types(data=data) if not _is_ours(name))


def refusal(labels: Iterable[Label], types: Iterable[str]) -> str:
    """Return the sentence that refuses types which nobody has trusted yet."""
    names = sorted(set(types))
    return (
        f"the model of node {listing(labels, most=3)} is made of types that are not trusted: "
        f"{', '.join(names)}; if you know who wrote this result and trust these packages, say so "
        f"with trust={names!r}"
    )


def read_bytes(path: Path) -> bytes:
    """Return the content of a model's file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedRelaxError(
            f"{path} cannot be read ({error.strerror or error}); the result is not whole, so run "
            "the fit again"
        ) from error


def _is_ours(name: str) -> bool:
    """Tell whether a name means a class that we or scikit-learn define under just that name.

    Functions are no part of it, nor classes of others that a module of ours happens to import.
    """
    if not name.startswith(OURS) or name.startswith(NEVER):
        return False
    module_name, _, class_name = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except Exception:
        return False
    return isinstance(found, type) and found.__module__ == module_name
