"""The state of a run as bytes: JSON and raw numbers, with a version and a checksum. No code, no pickle.

    FEDRELAX-STATE | version | SHA-256 of the rest | length of the JSON | JSON | numbers

The JSON is a tree: null, true, false, numbers, texts and lists as they are; everything else is an object
with one key. An array, a sparse matrix or a message that occurs in several places is written once, and
read as one object: some of the code compares identities.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.runtime import Message
from fedrelax.typing import AnyArray

MAGIC, VERSION = b"FEDRELAX-STATE\n", 1
HEAD = struct.Struct("<15sB32sQ")
NUMBERS = ("<f8", "<f4", "<i8", "<i4", "|b1")
"""The array types that can be written."""
DEEPEST, MOST_DIMENSIONS = 60, 8
MOST, MOST_TREE = 2**30, 2**27
"""The most bytes of a state, and of its JSON, that are written or read."""
WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
"""What values of an unexpected form raise."""


class Unreadable(FedRelaxError):  # noqa: N818 - what it is
    """Bytes that are not a state, or not the state that was written."""


def to_bytes(state: Any) -> bytes:
    """Return plain values, arrays, sparse matrices and messages as bytes.

    >>> from_bytes(to_bytes({"a": (1, np.arange(3))}))
    {'a': (1, array([0, 1, 2]))}
    """
    writer = _Writer()
    tree = json.dumps([writer.tree(state), writer.layouts], separators=(",", ":")).encode()
    rest = struct.pack("<Q", len(tree)) + tree
    check = hashlib.sha256(rest)
    for block in writer.blocks:
        check.update(block)
    size = len(tree) + sum(map(len, writer.blocks))
    if len(tree) > MOST_TREE or size > MOST - HEAD.size:
        raise FedRelaxError(
            f"the state of this run takes {size} bytes, and a checkpoint may take {MOST}; run without one"
        )
    head = HEAD.pack(MAGIC, VERSION, check.digest(), len(tree))
    return b"".join([head, tree, *writer.blocks])


def from_bytes(data: bytes) -> Any:
    """Return what ``to_bytes`` was given, or refuse the bytes."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise Unreadable("does not begin like a state of fedrelax")
    _, version, checksum, length = HEAD.unpack(data[: HEAD.size])
    if version != VERSION:
        raise Unreadable(f"has version {version}, but this fedrelax reads version {VERSION}")
    body = memoryview(data)[HEAD.size :]
    check = hashlib.sha256(struct.pack("<Q", length))
    check.update(body)
    if check.digest() != checksum:
        raise Unreadable("does not match its checksum")
    if length > min(len(body), MOST_TREE):
        raise Unreadable("ends before its description does")
    try:
        tree, layouts = json.loads(bytes(body[:length]))
        return _Reader(layouts, body[length:]).value(tree)
    except Unreadable:
        raise
    except WRONG as error:
        text = " ".join(str(error).split())
        raise Unreadable(f"does not have the expected form ({text})") from error


class _Writer:
    """Turns values into a JSON tree, with the numbers in separate blocks."""

    def __init__(self) -> None:
        self.layouts: list[tuple[str, list[int], list[int]]] = []
        self.blocks: list[bytes] = []
        self._known: dict[int, tuple[dict[str, Any], Any]] = {}

    def tree(self, value: Any) -> Any:
        """Return the tree of a value."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return [self.tree(part) for part in value]
        if isinstance(value, tuple):
            return {"tuple": [self.tree(part) for part in value]}
        if isinstance(value, dict):
            return {"dict": [[self.tree(k), self.tree(v)] for k, v in value.items()]}
        if isinstance(value, np.generic):
            return value.item()
        return self._once(value)

    def _once(self, value: Any) -> dict[str, Any]:
        """Write an object in full the first time, and its number after that."""
        if id(value) in self._known:
            return {"same": self._known[id(value)][0]["number"]}
        number = {"number": len(self._known)}
        self._known[id(value)] = number, value
        if isinstance(value, np.ndarray):
            return {"array": self._array(value)}
        if isinstance(value, Message):
            said = (value.sender, value.owner, value.round, value.predictions)
            return {"message": [self.tree(part) for part in said]}
        if sparse.issparse(value):
            matrix = value.tocsr()
            parts = (list(matrix.shape), matrix.data, matrix.indices, matrix.indptr)
            return {"csr": [self.tree(part) for part in parts]}
        raise FedRelaxError(f"a {type(value).__name__} cannot be saved in a checkpoint")

    def _array(self, array: AnyArray) -> int:
        """Record type, shape and memory order of the axes, on which last digits may depend."""
        kind = array.dtype.newbyteorder("<").str
        if kind not in NUMBERS:
            raise FedRelaxError(f"an array of {array.dtype} cannot be saved in a checkpoint")
        order = sorted(range(array.ndim), key=lambda axis: (-array.strides[axis], axis))
        self.layouts.append((kind, list(array.shape), order))
        self.blocks.append(array.transpose(order).astype(kind, order="C", copy=False).tobytes())
        return len(self.blocks) - 1


class _Reader:
    """Turns a tree back into values; arrays are checked against the bytes available."""

    def __init__(self, layouts: Any, numbers: memoryview) -> None:
        self._arrays: list[AnyArray] = []
        self._known: list[Any] = []
        place = 0
        for kind, shape, order in layouts:
            if kind not in NUMBERS or len(shape) > MOST_DIMENSIONS:
                raise Unreadable("holds an array of an unknown type")
            if any(type(size) is not int or size < 0 for size in shape):
                raise Unreadable("holds an array without a shape")
            if sorted(order) != list(range(len(shape))):
                raise Unreadable("holds an array without an order of axes")
            end = place + math.prod(shape) * np.dtype(kind).itemsize
            if end > len(numbers):
                raise Unreadable("ends before its numbers do")
            flat = np.frombuffer(numbers[place:end], dtype=kind)
            array = flat.reshape([shape[axis] for axis in order]).copy()
            self._arrays.append(array.transpose(np.argsort(order)) if order else array)
            place = end
        if place != len(numbers):
            raise Unreadable("holds more numbers than it says")

    def value(self, tree: Any, depth: int = 0) -> Any:
        """Return the value of a tree."""
        if depth > DEEPEST:
            raise Unreadable("is nested too deeply")
        if isinstance(tree, list):
            return [self.value(part, depth + 1) for part in tree]
        if not isinstance(tree, dict):
            return tree
        ((kind, content),) = tree.items()
        if kind == "tuple":
            return tuple(self.value(part, depth + 1) for part in content)
        if kind == "dict":
            return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in content}
        if kind == "same":
            if type(content) is not int or not 0 <= content < len(self._known):
                raise Unreadable("refers to an object that it does not hold")
            return self._known[content]
        number = len(self._known)
        self._known.append(None)
        self._known[number] = found = self._object(kind, content, depth + 1)
        return found

    def _object(self, kind: str, content: Any, depth: int) -> Any:
        if kind == "array":
            if type(content) is not int or content < 0:
                raise Unreadable("refers to an array by something other than a number")
            return self._arrays[content]
        parts = [self.value(part, depth) for part in content]
        if kind == "message":
            sender, owner, round, predictions = parts
            if type(round) is not int or not isinstance(predictions, np.ndarray):
                raise Unreadable("holds a message without a round or predictions")
            return Message(sender, owner, round, predictions)
        if kind == "csr":
            return _matrix(*parts)
        raise Unreadable(f"holds a {kind!r}, which is unknown")


def _matrix(shape: Any, data: AnyArray, indices: AnyArray, indptr: AnyArray) -> Any:
    if len(shape) != 2 or any(type(size) is not int for size in shape):
        raise Unreadable("holds a sparse matrix without a shape")
    if data.ndim != 1 or data.dtype != float or len(data) != len(indices):
        raise Unreadable("holds a sparse matrix without numbers")
    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix
