"""Model files that are zip files, read within limits: a small file cannot unpack to a huge one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.files import from_npy
from fedrelax.models.base import Task
from fedrelax.typing import AnyArray

MEGABYTE = 2**20
FREE = 64 * MEGABYTE
"""What any file may unpack to, however small it is."""

TIMES = 100
"""How many times its own size a larger file may unpack to; models compress 2 to 20 times."""

MOST = 2**31
"""The most that any file may unpack to."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def allowed(size: int) -> int:
    """Return how many bytes may come out of a compressed file of this size.

    >>> allowed(4 * MEGABYTE) // MEGABYTE, allowed(100) // MEGABYTE
    (400, 64)
    """
    return min(max(FREE, TIMES * size), MOST)


def opened(data: bytes) -> dict[str, bytes]:
    """Return the members of a zip file by name; raise an error that says why it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            entries, most = file.infolist(), allowed(len(data))
            if len({entry.filename for entry in entries}) != len(entries):
                raise FedRelaxError("its file has two parts of the same name")
            for entry in entries:
                if entry.flag_bits & 1 or entry.compress_type not in METHODS:
                    raise FedRelaxError(
                        f"the part {entry.filename!r} of its file is encrypted or unknown"
                    )
            total = sum(entry.file_size for entry in entries)
            if total > most:
                raise FedRelaxError(
                    f"its file would unpack to {total // MEGABYTE} MB, and a file of its size may "
                    f"unpack to at most {most // MEGABYTE} MB"
                )
            return {entry.filename: file.read(entry) for entry in entries}
    except FedRelaxError:
        raise
    except Exception as error:  # zlib, struct and zipfile have errors of their own
        text = in_one_line(error, kind=False)
        raise FedRelaxError(f"its file is not an intact zip file ({text})") from error


def closed(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return members as a zip file, uncompressed unless ``method`` says otherwise."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def member(members: Mapping[str, bytes], name: str) -> bytes:
    """Return one member; raise an error if the file has none of this name."""
    if name not in members:
        raise FedRelaxError(f"its file has no part {name!r}")
    return members[name]


def json_member(members: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """Return a member that is a JSON object."""
    try:
        content = json.loads(member(members, name))
    except (ValueError, RecursionError) as error:
        raise FedRelaxError(f"the part {name!r} of its file is not JSON ({error})") from error
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise FedRelaxError(f"the part {name!r} of its file is a {kind}, not a dict")
    return content


def array_member(members: Mapping[str, bytes], name: str) -> AnyArray:
    """Return a member that is a numpy array; its header must claim exactly the bytes that follow."""
    return from_npy(member(members, name), f"the part {name!r} of its file", dtypes=None)


def described_classes(classes: AnyArray | None) -> dict[str, Any]:
    """Return class labels as plain values for a JSON member."""
    if classes is None:
        return {"classes": None, "classes_type": None}
    return {"classes": classes.tolist(), "classes_type": classes.dtype.str}


def classes_in(described: Mapping[str, Any]) -> AnyArray | None:
    """Return the class labels that ``described_classes`` described."""
    if described["classes"] is None:
        return None
    return np.asarray(described["classes"], dtype=np.dtype(described["classes_type"]))


def described_task(task: Task) -> dict[str, Any]:
    """Return a task as plain values for a JSON member."""
    return {"kind": task.kind, "n_outputs": task.n_outputs, **described_classes(task.classes)}


def task_in(described: Mapping[str, Any]) -> Task:
    """Return the task that ``described_task`` described."""
    return Task(str(described["kind"]), int(described["n_outputs"]), classes_in(described))
