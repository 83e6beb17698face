"""Values of a given form, from files and letters: what pydantic finds wrong with them, in our words."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fedrelax.errors import did_you_mean
from fedrelax.files import Refused

Kind = TypeVar("Kind")
LONGEST = 60
"""Characters of a value that a message shows."""


class Described(BaseModel):
    """A file's content, or a part of it: values of exactly these types, and finite numbers only."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True)


def from_json(kind: type[Kind], content: bytes | str, what: str = "") -> Kind:
    """Return JSON as this kind: a model, a dataclass or a type; or say which value does not fit.

    ``what`` is the subject of the error's text; without it, the text continues "the file ...".

    >>> from_json(list[int], '[1, 2, "3"]', "it")
    Traceback (most recent call last):
    ...
    fedrelax.files.Refused: it has '3' under '2', which should be a valid integer
    """
    try:
        found: Kind = _adapter(cast(Any, kind)).validate_json(content, strict=True)
    except ValidationError as error:
        words = _words(error.errors(include_url=False)[0], kind)
        raise Refused(f"{what} {words}".lstrip()) from None
    return found


def from_plain(kind: type[Kind], values: Any, what: str = "") -> Kind:
    """Return plain values, such as those of a TOML file or of a letter, as this kind."""
    try:
        content = json.dumps(values, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"{what} cannot be read ({error})".lstrip()) from None
    return from_json(kind, content, what)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _words(error: Any, kind: Any) -> str:
    field = ".".join(map(str, error["loc"])) or "its outermost level"
    if error["type"] == "missing":
        return f"has no {field!r}"
    if error["type"] == "json_invalid":
        return f"cannot be read ({error['msg']})"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = getattr(kind, "__dataclass_fields__", getattr(kind, "model_fields", ()))
        return f"has {field!r}, which is not known{did_you_mean(field, known)}"
    needed = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "value_error" and not needed.startswith("which"):
        return f"cannot be used: {needed}"
    shown = repr(error["input"])
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
    if needed.startswith("Input should"):
        needed = f"which {needed.removeprefix('Input ')}"
    return f"has {shown} under {field!r}, {needed}"
