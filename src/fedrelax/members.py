"""Packages whose members are found, not listed: a new loss, wiring, baseline or engine is one file."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def members(package: str, base: Any) -> dict[str, Any]:
    """Return the classes with a ``name`` that the modules of a package define, by that name.

    A module may be a package that imports its classes. Modules are visited in the order of their names.

    >>> from fedrelax.losses import Loss
    >>> sorted(members("fedrelax.losses", Loss))
    ['absolute', 'huber', 'log', 'squared']
    """
    found: dict[str, Any] = {}
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        for kind in vars(import_module(module.name)).values():
            ours = inspect.isclass(kind) and f"{kind.__module__}.".startswith(f"{module.name}.")
            if ours and issubclass(kind, base) and "name" in vars(kind):
                found[kind.name] = kind
    return found
