"""Writing TOML: Python reads it (``tomllib``) but does not write it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dump_toml(settings: Mapping[str, Any], comment: str = "") -> str:
    """Return settings as TOML text: text, numbers, true/false, lists of them, tables.

    Entries that are None are left out, as TOML has no word for them. ``comment`` comes first.

    >>> print(dump_toml({"alpha": 0.1, "features": ["a", 'b "x"'], "for": {"no 1": "tree"}}), end="")
    alpha = 0.1
    features = ["a", "b \\"x\\""]
    <BLANKLINE>
    [for]
    "no 1" = "tree"
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    tables = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            tables.append((key, value))
        elif value is not None:
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, table in tables:
        lines += ["", f"[{_key(key)}]"]
        lines += [f"{_key(k)} = {_value(v)}" for k, v in table.items() if v is not None]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text(str(value))


def _number(value: float) -> str:
    """Return a float so that it reads back as the same float, and not as a whole number."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _text(text: str) -> str:
    """Return a basic string; JSON's escapes are TOML's, but for the character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
