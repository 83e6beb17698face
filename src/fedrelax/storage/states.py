"""State as bytes: JSON and arrays as ``.npy``, with a version and a checksum. No code, no pickle.

    FEDRELAX-STATE-4, a line break | SHA-256 of the rest | JSON, a line break | blocks

Checkpoints, the states of a federation's sites and hub, and the letters between them are written like
this. The JSON holds a tree and the lengths of the blocks. In the tree null, true, false, numbers, texts
and lists stand as they are; everything else is an object with one key. An array, a sparse matrix or a
message that occurs in several places is written once, and read as one object: some of the code compares
identities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.files import RESULT, Refused, from_npy, read_file, to_npy, why_unread, write_whole
from fedrelax.runtime import Message

MAGIC = b"FEDRELAX-STATE-4\n"
BEGIN = len(MAGIC) + hashlib.sha256().digest_size
"""Where the JSON begins."""
NUMBERS = ("<f8", "<f4", "<i8", "<i4", "|b1")
"""The array types that can be written."""
MOST_TREE = 2**27
"""The most bytes of JSON that are written or read."""


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
    blocks: list[bytes] = []
    tree = json.dumps(
        [_tree(state, blocks, {}), [*map(len, blocks)]], separators=(",", ":")
    ).encode()
    size = len(tree) + sum(map(len, blocks))
    if len(tree) > MOST_TREE or size > RESULT - BEGIN:
        raise FedRelaxError(
            f"the state of this run takes {size} bytes, and at most {RESULT} are kept; run without a "
            "checkpoint"
        )
    body = b"".join([tree, b"\n", *blocks])
    return MAGIC + hashlib.sha256(body).digest() + body


def from_bytes(data: bytes) -> Any:
    """Return what ``to_bytes`` was given, or refuse the bytes."""
    if not data.startswith(MAGIC):
        raise Refused("is not a state of this version of fedrelax")
    body = memoryview(data)[BEGIN:]
    if hashlib.sha256(body).digest() != data[len(MAGIC) : BEGIN]:
        raise Refused("does not match its checksum")
    length = data.find(b"\n", BEGIN, BEGIN + MOST_TREE) - BEGIN
    try:
        tree, lengths = json.loads(bytes(body[:length]))
        ends = list(accumulate(lengths, initial=length + 1))
        if ends[-1] != len(body):
            raise Refused("does not hold the bytes that it says")
        blocks = dict(enumerate(body[a:b] for a, b in pairwise(ends)))
        return _value(tree, blocks, {})
    except Refused:
        raise
    except Exception as error:  # values of an unexpected form fail in many ways
        text = in_one_line(error, kind=False)
        raise Refused(f"does not have the expected form ({text})") from error


def _tree(value: Any, blocks: list[bytes], seen: dict[int, tuple[int, Any]]) -> Any:
    """Return the tree of a value; bytes and arrays are added to the blocks.

    ``seen`` has the numbers of the objects so far, by identity: each is written in full once.
    """

    def trees(parts: Iterable[Any]) -> list[Any]:
        return [_tree(part, blocks, seen) for part in parts]

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return trees(value)
    if isinstance(value, tuple):
        return {"tuple": trees(value)}
    if isinstance(value, dict):
        return {"dict": [trees(item) for item in value.items()]}
    if isinstance(value, bytes):
        blocks.append(value)
        return {"bytes": len(blocks) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if id(value) in seen:
        return {"same": seen[id(value)][0]}
    seen[id(value)] = len(seen), value
    if isinstance(value, np.ndarray):
        # The order of the axes in memory is kept: last digits may depend on it.
        if value.dtype.newbyteorder("<").str not in NUMBERS:
            raise FedRelaxError(f"an array of {value.dtype} cannot be saved in a checkpoint")
        order = sorted(range(value.ndim), key=lambda axis: (-value.strides[axis], axis))
        blocks.append(to_npy(value.transpose(order)))
        return {"array": [len(blocks) - 1, order]}
    if isinstance(value, Message):
        return {"message": trees((value.sender, value.owner, value.round, value.predictions))}
    if sparse.issparse(value):
        matrix = value.tocsr()
        return {"csr": trees((list(matrix.shape), matrix.data, matrix.indices, matrix.indptr))}
    raise FedRelaxError(f"a {type(value).__name__} cannot be saved in a checkpoint")


def _value(tree: Any, blocks: dict[int, memoryview], seen: dict[int, Any]) -> Any:
    """Return the value of a tree; each array is checked against the bytes of its block."""

    def values(parts: Iterable[Any]) -> list[Any]:
        return [_value(part, blocks, seen) for part in parts]

    if isinstance(tree, list):
        return values(tree)
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "tuple":
        return tuple(values(content))
    if kind == "dict":
        return {key: value for key, value in map(values, content)}
    if kind == "bytes":
        return bytes(blocks[content])
    if kind == "same":
        return seen[content]
    number = len(seen)
    seen[number] = None  # what is inside has later numbers
    if kind == "array":
        block, order = content
        array = from_npy(blocks[block], "an array in it", dtypes=NUMBERS)
        seen[number] = array.transpose(np.argsort(order)) if order else array
    elif kind == "message":
        seen[number] = message = Message(*values(content))
        if type(message.round) is not int or not isinstance(message.predictions, np.ndarray):
            raise Refused("holds a message without a round or predictions")
    elif kind == "csr":
        (rows, columns), *parts = values(content)
        seen[number] = matrix = sparse.csr_array(tuple(parts), shape=(rows, columns))
        matrix.check_format(full_check=True)
    else:
        raise Refused(f"holds a {kind!r}, which is unknown")
    return seen[number]
