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


def pack(label: Label, model: Any) -> bytes:
    """Return a model as the bytes of a skops file, or say which node's cannot be written.

    The bytes are read back once: skops writes a function as its name, and a lambda has none.
    """
    from skops.io import dumps, get_untrusted_types, loads

    try:
        data = bytes(dumps(model, compression=zipfile.ZIP_DEFLATED))
        loads(data, trusted=get_untrusted_types(data=data))
        return data
    except Exception as error:  # skops raises whatever the model's own methods raise
        text = " ".join(str(error).split())
        raise FedRelaxError(
            f"node {label!r}: its model {type(model).__name__} cannot be saved without pickle "
            f"({type(error).__name__}: {text}); use a model whose attributes are plain values, "
            "arrays and estimators"
        ) from error


def types_to_trust(label: Label, data: bytes) -> list[str]:
    """Return the types in a skops file that a user has to trust by name."""
    return sorted(name for name in _named_types(label, data) if not _is_ours(name))


def unpack(label: Label, data: bytes, trust: Sequence[str] = ()) -> Any:
    """Return the model in a skops file, if all its types are trusted."""
    from skops.io import loads

    named = _named_types(label, data)
    refused = [name for name in named if name not in trust and not _is_ours(name)]
    if refused:
        raise FedRelaxError(refusal([label], refused))
    try:
        return loads(data, trusted=named)
    except Exception as error:  # whatever the types' own methods raise
        raise _unloadable(label, error) from error


def _named_types(label: Label, data: bytes) -> list[str]:
    """Return the types in a skops file that skops itself does not trust."""
    from skops.io import get_untrusted_types

    try:
        return list(get_untrusted_types(data=data))
    except Exception as error:  # a damaged file can fail in many ways
        raise _unloadable(label, error) from error


def _unloadable(label: Label, error: Exception) -> FedRelaxError:
    text = " ".join(str(error).split())
    return FedRelaxError(
        f"node {label!r}: its saved model cannot be loaded ({type(error).__name__}: {text}); "
        "check that the file is whole and that the packages it was made with are installed"
    )


def refusal(labels: Iterable[Label], types: Iterable[str]) -> str:
    """Return the sentence that refuses types which nobody has trusted yet."""
    names = sorted(set(types))
    flags = " ".join(f"--trust {name}" for name in names)
    return (
        f"the model of node {listing(labels, most=3)} is made of types that are not trusted: "
        f"{', '.join(names)}; if you know who wrote this result and trust these packages, say so "
        f"with {flags}"
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
