"""The body of a request: JSON of a known form and size, or a sentence that says what is wrong with it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from fedrelax.errors import FedRelaxError
from fedrelax.files import Refused
from fedrelax.jsonfiles import Described, from_json

MOST_ROWS = 10_000
WHOLE = 2**63
"""Whole numbers from here on are read as floats, as in tables."""
SHAPE = '{"node": "...", "rows": [{"column": value, ...}, ...]}'
LONGEST = 500
"""The most letters of a sentence, which may quote what was sent."""


class Refusal(FedRelaxError):  # noqa: N818 - what is said, not what went wrong
    """Why a request is not answered: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def sentence_of(error: FedRelaxError) -> dict[str, str]:
    """Return the answer to a refused request.

    >>> sentence_of(Refusal(404, "there is no node 'x'"))
    {'error': "there is no node 'x'"}
    """
    text = str(error)
    return {"error": text if len(text) <= LONGEST else text[:LONGEST] + "..."}


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("which should be text, a finite number, true, false or null")
    if isinstance(value, int) and abs(value) >= WHOLE:
        try:
            return float(value)
        except OverflowError:
            raise ValueError("which is too large") from None
    return value


Value = Annotated[Any, AfterValidator(_plain)]
"""Text, a finite number, true, false or null."""


class Body(Described):
    """What a request may hold: rows, and the node of all or of each of them."""

    model_config = ConfigDict(extra="forbid")

    rows: Annotated[list[dict[str, Value]], Field(min_length=1)]
    node: Value = None
    nodes: list[Value] | None = None

    @property
    def node_of_each(self) -> list[Any] | None:
        """The node of each row; None where none was named."""
        return self.nodes if self.node is None else [self.node] * len(self.rows)

    @model_validator(mode="after")
    def _one_node_each(self) -> Self:
        if self.nodes is not None and self.node is not None:
            raise ValueError("it has both 'node' and 'nodes'")
        if self.nodes is not None and len(self.nodes) != len(self.rows):
            raise ValueError(f"it has {len(self.nodes)} nodes for {len(self.rows)} rows")
        return self


def read_asked(content: bytes) -> Body:
    """Return what a body asks for; every value in it is text, a finite number, true, false or null."""
    try:
        body = from_json(Body, content)
    except Refused as error:
        raise Refusal(400, f"the body {error}; send {SHAPE}") from None
    if len(body.rows) > MOST_ROWS:
        raise Refusal(
            413, f"the request has {len(body.rows)} rows; send at most {MOST_ROWS} at a time"
        )
    return body
