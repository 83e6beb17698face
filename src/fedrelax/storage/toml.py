"""Settings as TOML text: Python reads it (``tomllib``), ``tomli_w`` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w


def dump_toml(settings: Mapping[str, Any], comment: str = "") -> str:
    """Return settings as TOML text: text, numbers, true/false, lists of them, tables.

    Entries that are None are left out, as TOML has no null; types that TOML does not have become
    text. ``comment`` comes first.

    >>> print(dump_toml({"alpha": 0.1, "graph": None, "for": {"no 1": "tree"}}, "by hand"), end="")
    # by hand
    alpha = 0.1
    <BLANKLINE>
    [for]
    "no 1" = "tree"
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, tomli_w.dumps(_known(settings))]) or "\n"


def _known(value: Any) -> Any:
    """Return the value in types that TOML has."""
    if isinstance(value, Mapping):
        return {key: _known(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_known(entry) for entry in value]
    return value if isinstance(value, bool | int | float) else str(value)
