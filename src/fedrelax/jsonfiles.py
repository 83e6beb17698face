"""JSON files of a given form: what pydantic finds wrong with one, in the words of this library."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fedrelax.errors import FedRelaxError

LONGEST = 60
"""Characters of a value that a message shows."""


class Described(BaseModel):
    """A file's content, or a part of it: values of exactly these types, and finite numbers only."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True)


class Misfit(FedRelaxError):  # noqa: N818 - what it is
    """Values that do not have the form that they should have; the text continues "the file ..."."""


def from_json(kind: Any, content: bytes | str) -> Any:
    """Return the content of a JSON file as this kind, or say which value does not fit.

    >>> from_json(list[int], '[1, 2, "3"]')
    Traceback (most recent call last):
    ...
    fedrelax.jsonfiles.Misfit: has '3' under '2', which should be a valid integer
    """
    try:
        return TypeAdapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        raise Misfit(_words(error.errors(include_url=False)[0])) from None


def _words(error: Any) -> str:
    field = ".".join(map(str, error["loc"])) or "its outermost level"
    if error["type"] == "missing":
        return f"has no {field!r}"
    if error["type"] == "json_invalid":
        return f"cannot be read ({error['msg']})"
    shown = repr(error["input"])
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
    needed = str(error["msg"]).removeprefix("Value error, ")
    if needed.startswith("Input should"):
        needed = f"which {needed.removeprefix('Input ')}"
    return f"has {shown} under {field!r}, {needed}"
