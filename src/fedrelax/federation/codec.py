"""Arrays and envelopes as bytes: ``.npy`` without pickle, and nothing used before it is checked."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray

MAGIC = b"FRLX\x01"
"""How an envelope begins; the last byte is the version of the format."""
MOST_HEAD = 1 << 24
"""The most bytes of JSON that are read."""
MOST_PART = 1 << 30
"""The most bytes of one part that are read."""
MOST_PARTS = 1 << 20
NPY = b"\x93NUMPY\x01\x00"
"""Only version 1 of the ``.npy`` format is read."""
NPY_HEADER = 128
"""Bytes that numpy writes before the numbers of an array of few dimensions."""


class Refused(FedRelaxError):  # noqa: N818 - what happened to it
    """Something that came from elsewhere is not valid, and was not used."""


@dataclass(frozen=True)
class Envelope:
    """One letter: its kind, a head of plain values, and named parts of bytes."""

    kind: str
    head: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)

    def value(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """Return a plain value from the head, or refuse one that is missing or of the wrong type."""
        found = self.head.get(name)
        wrong = isinstance(found, bool) and kind is int
        if wrong or not isinstance(found, kind):
            known = "nothing" if name not in self.head else f"a {type(found).__name__}"
            raise Refused(f"a letter {self.kind!r} has {known} under {name!r}")
        return found

    def part(self, name: str) -> bytes:
        """Return a part, or refuse a letter without it."""
        if name not in self.parts:
            raise Refused(f"a letter {self.kind!r} has no part {name!r}")
        return self.parts[name]


def pack(envelope: Envelope) -> bytes:
    """Return an envelope as bytes: a head of JSON, then its parts.

    >>> unpack(pack(Envelope("hello", {"n": 1}, {"box": b"abc"}))).parts
    {'box': b'abc'}
    """
    names = list(envelope.parts)
    lengths = [len(envelope.parts[name]) for name in names]
    head = json.dumps([envelope.kind, envelope.head, names, lengths]).encode()
    return b"".join(
        [MAGIC, struct.pack("<I", len(head)), head, *(envelope.parts[name] for name in names)]
    )


def unpack(data: bytes) -> Envelope:
    """Return the envelope in these bytes, or refuse them."""
    start = len(MAGIC) + 4
    if not data.startswith(MAGIC) or len(data) < start:
        raise Refused("a letter does not begin like one of this version of fedrelax")
    (length,) = struct.unpack("<I", data[len(MAGIC) : start])
    if length > MOST_HEAD or start + length > len(data):
        raise Refused(f"a letter's head of {length} bytes is too long or truncated")
    try:
        kind, head, names, lengths = json.loads(data[start : start + length])
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused("a letter's head is not JSON of the expected form") from error
    _check_head(kind, head, names, lengths)
    place, parts = start + length, {}
    if sum(lengths) != len(data) - place:
        raise Refused(
            f"a letter {kind!r} says that its parts take {sum(lengths)} bytes, but "
            f"{len(data) - place} follow: it is truncated or was changed"
        )
    for name, size in zip(names, lengths, strict=True):
        parts[name] = data[place : place + size]
        place += size
    return Envelope(kind, head, parts)


def _check_head(kind: Any, head: Any, names: Any, lengths: Any) -> None:
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    whole = isinstance(lengths, list) and all(
        type(size) is int and 0 <= size <= MOST_PART for size in lengths
    )
    fits = texts and whole and len(names) == len(lengths) == len(set(names)) <= MOST_PARTS
    if not (isinstance(kind, str) and isinstance(head, dict) and fits):
        raise Refused("a letter's head is not of the expected form")


# Arrays


def to_npy(array: AnyArray) -> bytes:
    """Return numbers as ``.npy`` bytes: doubles, row by row.

    >>> len(to_npy(np.zeros((5, 2)))) == npy_bytes(5, 2)
    True
    """
    buffer = BytesIO()
    values = np.ascontiguousarray(array, dtype="<f8")
    np.lib.format.write_array(buffer, values, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def npy_bytes(*shape: int) -> int:
    """Return how many bytes ``to_npy`` makes of an array of up to a million rows and columns."""
    return NPY_HEADER + 8 * math.prod(shape)


def from_npy(data: bytes, shape: tuple[int, ...], what: str, finite: bool = True) -> AnyArray:
    """Return the array in these bytes; refuse another shape or type and, if ``finite``, NaN and infinity.

    The header is checked before any number is read, so that a forged one costs no memory.
    """
    if data[: len(NPY)] != NPY:
        raise Refused(f"{what} is not a .npy array of version 1")
    stream = BytesIO(data)
    np.lib.format.read_magic(stream)
    try:
        found, fortran, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=4096)
    except Exception as error:  # numpy parses it as a Python literal, which fails in many ways
        raise Refused(f"{what} has a header that is not that of an array") from error
    if dtype != np.dtype("<f8"):
        raise Refused(f"{what} holds {dtype}, but 64-bit floats are needed")
    if found != shape or fortran:
        raise Refused(f"{what} has shape {found}, but {shape} is needed")
    body = memoryview(data)[stream.tell() :]
    if len(body) != 8 * math.prod(shape):
        raise Refused(
            f"{what} has {len(body)} bytes of numbers, but {8 * math.prod(shape)} are needed"
        )
    array = np.frombuffer(body, dtype="<f8").reshape(shape).astype(float)
    if finite and not np.isfinite(array).all():
        raise Refused(f"{what} holds NaN or infinite values")
    return array
