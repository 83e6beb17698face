"""The body of a request: JSON of a known shape and size, or a sentence that says what is wrong with it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedrelax.errors import listing
from fedrelax.serving.refusal import Refusal

MOST_ROWS = 10_000
DEEPEST = 8
"""The most levels of nested lists and objects; a valid request has three."""
KEYS = ("node", "nodes", "rows")
WHOLE = 2**63
"""Whole numbers from here on are read as floats, as in tables."""
SHAPE = '{"node": "...", "rows": [{"column": value, ...}, ...]}'


@dataclass(frozen=True)
class Asked:
    """Rows as they were sent, and the node of each; None where none was named."""

    nodes: Sequence[Any] | None
    rows: list[dict[str, Any]]


def read_asked(body: bytes) -> Asked:
    """Return what a body asks for; every value in it is text, a finite number, true, false or null."""
    said = read_json(body)
    if not isinstance(said, dict):
        raise Refusal(400, f"the body holds {_kind(said)}; send an object such as {SHAPE}")
    strange = [key for key in said if key not in KEYS]
    if strange:
        raise Refusal(400, f"the body has the key {strange[0]!r}; known keys are {listing(KEYS)}")
    rows = _rows(said.get("rows"))
    return Asked(_nodes(said, len(rows)), rows)


def read_json(body: bytes) -> Any:
    """Parse JSON, strictly: without NaN and infinity, and without a key twice in one object."""
    if _depth(body) > DEEPEST:
        raise Refusal(400, f"the body nests deeper than {DEEPEST} levels; send {SHAPE}")
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_constant=_no_number,
            parse_float=_float,
            parse_int=_int,
            object_pairs_hook=_object,
        )
    except Refusal:
        raise
    except UnicodeDecodeError as error:
        raise Refusal(
            400, f"the body is not text in UTF-8 (at byte {error.start}); encode it as UTF-8"
        ) from None
    except json.JSONDecodeError as error:
        raise Refusal(
            400, f"the body is not JSON ({error.msg}, at character {error.pos}); send {SHAPE}"
        ) from None


def _depth(body: bytes) -> int:
    """Return how deep lists and objects nest, in time linear in the size and without recursion."""
    bare = re.sub(rb'"[^"]*"', b"", re.sub(rb"\\.", b"", body, flags=re.DOTALL))
    depth = deepest = 0
    for sign in re.findall(rb"[\[\]{}]", bare):
        depth += 1 if sign in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _no_number(text: str) -> Any:
    raise Refusal(400, f"the body holds {text}, which JSON does not have; send null for a gap")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Refusal(400, f"the number {text[:40]} is too large; send one below 1e308")
    return number


def _int(text: str) -> int | float:
    number = _float(text)
    return number if abs(number) >= WHOLE else int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Refusal(400, f"the body has the key {twice!r} twice in one object; send it once")
    return found


def _rows(rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not rows:
        found = "nothing" if rows in (None, []) else _kind(rows)
        raise Refusal(400, f"'rows' holds {found}; send a list of objects, as in {SHAPE}")
    if len(rows) > MOST_ROWS:
        raise Refusal(413, f"the request has {len(rows)} rows; send at most {MOST_ROWS} at a time")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Refusal(
                400, f"row {number} is {_kind(row)}; send an object of columns and values"
            )
        for name, value in row.items():
            _check_value(value, f"row {number}, column {name!r}")
    return rows


def _nodes(said: dict[str, Any], count: int) -> list[Any] | None:
    if "node" in said and "nodes" in said:
        raise Refusal(400, "the body has both 'node' and 'nodes'; send one of them")
    if "nodes" not in said and "node" not in said:
        return None
    nodes = said["nodes"] if "nodes" in said else [said["node"]] * count
    if not isinstance(nodes, list) or len(nodes) != count:
        found = f"{len(nodes)} nodes" if isinstance(nodes, list) else _kind(nodes)
        raise Refusal(
            400, f"'nodes' holds {found} for {count} rows; send a list with the node of every row"
        )
    for number, node in enumerate(nodes):
        _check_value(node, f"the node of row {number}")
        if node is None:
            raise Refusal(400, f"the node of row {number} is null; name it")
    return nodes


def _check_value(value: Any, place: str) -> None:
    if isinstance(value, list | dict):
        raise Refusal(
            422, f"{place} holds {_kind(value)}; send text, a number, true, false or null"
        )
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refusal(422, f"{place} holds half a character; send whole ones") from None


def _kind(value: Any) -> str:
    """Return what JSON calls a value's type."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return "text" if isinstance(value, str) else "a number"
