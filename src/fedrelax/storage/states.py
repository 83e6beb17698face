"""State as bytes: JSON and arrays as ``.npy``, with a version and a checksum. No code, no pickle.

    FEDRELAX-STATE | version | SHA-256 of the rest | length of the JSON | JSON | blocks

Checkpoints, the states of a federation's sites and hub, and the letters between them are written like
this. The JSON holds a tree and the lengths of the blocks. In the tree null, true, false, numbers, texts
and lists stand as they are; everything else is an object with one key. An array, a sparse matrix or a
message that occurs in several places is written once, and read as one object: some of the code compares
identities.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.files import RESULT, Refused, from_npy, read_file, to_npy, why_unread, write_whole
from fedrelax.runtime import Message
from fedrelax.typing import AnyArray

MAGIC, VERSION = b"FEDRELAX-STATE\n", 2
HEAD = struct.Struct("<15sB32sQ")
NUMBERS = ("<f8", "<f4", "<i8", "<i4", "|b1")
"""The array types that can be written."""
MOST_DIMENSIONS, MOST_TREE = 8, 2**27
"""The most axes of an array, and the most bytes of JSON, that are written or read."""
WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
"""What values of an unexpected form raise."""


def write_state(path: Path, state: Any) -> None:
    """Write a state to a file that appears whole or not at all."""
    write_whole(path, to_bytes(state))


def read_state(path: Path) -> Any:
    """Return the state in a file; the text of a refusal continues "the file ..."."""
    try:
        return from_bytes(read_file(path, RESULT))
    except OSError as error:
        raise Refused(f"cannot be read ({why_unread(error)})") from error


def to_bytes(state: Any) -> bytes:
    """Return plain values, bytes, arrays, sparse matrices and messages as bytes.

    >>> from_bytes(to_bytes({"a": (1, np.arange(3))}))
    {'a': (1, array([0, 1, 2]))}
    """
    writer = _Writer()
    lengths = [writer.tree(state), [len(block) for block in writer.blocks]]
    tree = json.dumps(lengths, separators=(",", ":")).encode()
    size = len(tree) + sum(map(len, writer.blocks))
    if len(tree) > MOST_TREE or size > RESULT - HEAD.size:
        raise FedRelaxError(
            f"the state of this run takes {size} bytes, and at most {RESULT} are kept; run without a "
            "checkpoint"
        )
    checksum = _checksum(len(tree), tree, *writer.blocks)
    return b"".join([HEAD.pack(MAGIC, VERSION, checksum, len(tree)), tree, *writer.blocks])


def from_bytes(data: bytes) -> Any:
    """Return what ``to_bytes`` was given, or refuse the bytes."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise Refused("does not begin like a state of fedrelax")
    _, version, checksum, length = HEAD.unpack(data[: HEAD.size])
    if version != VERSION:
        raise Refused(f"has version {version}, but this fedrelax reads version {VERSION}")
    body = memoryview(data)[HEAD.size :]
    if _checksum(length, body) != checksum:
        raise Refused("does not match its checksum")
    if length > min(len(body), MOST_TREE):
        raise Refused("ends before its description does")
    try:
        tree, lengths = json.loads(bytes(body[:length]))
        return _Reader(lengths, body[length:]).value(tree)
    except Refused:
        raise
    except WRONG as error:
        text = in_one_line(error, kind=False)
        raise Refused(f"does not have the expected form ({text})") from error


def _checksum(length: int, *parts: bytes | memoryview) -> bytes:
    check = hashlib.sha256(struct.pack("<Q", length))
    for part in parts:
        check.update(part)
    return check.digest()


class _Writer:
    """Turns values into a JSON tree, with arrays and bytes in separate blocks."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self._known: dict[int, tuple[int, Any]] = {}

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
        if isinstance(value, bytes):
            return {"bytes": self._block(value)}
        if isinstance(value, np.generic):
            return value.item()
        return self._once(value)

    def _once(self, value: Any) -> dict[str, Any]:
        """Write an object in full the first time, and its number after that."""
        if id(value) in self._known:
            return {"same": self._known[id(value)][0]}
        self._known[id(value)] = len(self._known), value
        if isinstance(value, np.ndarray):
            # The order of the axes in memory is kept: last digits may depend on it.
            if value.dtype.newbyteorder("<").str not in NUMBERS:
                raise FedRelaxError(f"an array of {value.dtype} cannot be saved in a checkpoint")
            order = sorted(range(value.ndim), key=lambda axis: (-value.strides[axis], axis))
            return {"array": [self._block(to_npy(value.transpose(order))), order]}
        if isinstance(value, Message):
            said = (value.sender, value.owner, value.round, value.predictions)
            return {"message": [self.tree(part) for part in said]}
        if sparse.issparse(value):
            matrix = value.tocsr()
            parts = (list(matrix.shape), matrix.data, matrix.indices, matrix.indptr)
            return {"csr": [self.tree(part) for part in parts]}
        raise FedRelaxError(f"a {type(value).__name__} cannot be saved in a checkpoint")

    def _block(self, data: bytes) -> int:
        self.blocks.append(data)
        return len(self.blocks) - 1


class _Reader:
    """Turns a tree back into values; each array is checked against the bytes of its block."""

    def __init__(self, lengths: Any, data: memoryview) -> None:
        if any(type(size) is not int or size < 0 for size in lengths) or sum(lengths) != len(data):
            raise Refused("does not hold the bytes that it says")
        self._known: list[Any] = []
        self._blocks, place = [], 0
        for size in lengths:
            self._blocks.append(data[place : place + size])
            place += size

    def value(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if isinstance(tree, list):
            return [self.value(part) for part in tree]
        if not isinstance(tree, dict):
            return tree
        ((kind, content),) = tree.items()
        if kind == "tuple":
            return tuple(self.value(part) for part in content)
        if kind == "dict":
            return {self.value(k): self.value(v) for k, v in content}
        if kind == "bytes":
            return bytes(self._block(content))
        if kind == "same":
            return self._known[_number(content)]
        number = len(self._known)
        self._known.append(None)
        self._known[number] = found = self._object(kind, content)
        return found

    def _block(self, number: Any) -> memoryview:
        return self._blocks[_number(number)]

    def _object(self, kind: str, content: Any) -> Any:
        if kind == "array":
            number, order = content
            array = from_npy(self._block(number), "an array in it", dtypes=NUMBERS)
            if array.ndim > MOST_DIMENSIONS or sorted(order) != list(range(array.ndim)):
                raise Refused("holds an array without an order of axes")
            return array.transpose(np.argsort(order)) if order else array
        parts = [self.value(part) for part in content]
        if kind == "message":
            sender, owner, round, predictions = parts
            if type(round) is not int or not isinstance(predictions, np.ndarray):
                raise Refused("holds a message without a round or predictions")
            return Message(sender, owner, round, predictions)
        if kind == "csr":
            return _matrix(*parts)
        raise Refused(f"holds a {kind!r}, which is unknown")


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Refused("refers to a part by something other than its number")
    return value


def _matrix(shape: Any, data: AnyArray, indices: AnyArray, indptr: AnyArray) -> Any:
    if len(shape) != 2 or any(type(size) is not int for size in shape):
        raise Refused("holds a sparse matrix without a shape")
    if data.ndim != 1 or data.dtype != float or len(data) != len(indices):
        raise Refused("holds a sparse matrix without numbers")
    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix
