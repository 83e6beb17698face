"""Files that may come from anywhere are read within limits; own files are written whole or not at all.

A path may lead to a device that never ends or to a pipe that never answers. Reading raises an ``OSError``
whose ``strerror`` says what is wrong, as for any other file that cannot be read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray

KEY, SETTINGS, RESULT, TABLE = 2**16, 2**26, 2**31, 2**33
"""The most bytes that are read of a key, a settings file, a file of a result, and a table."""


class Refused(FedRelaxError):  # noqa: N818 - what happened to it
    """Something that came from elsewhere does not have the form that it should have, and was not used."""


# Reading


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes."""
    # Without O_NONBLOCK, opening a pipe would wait for somebody to write.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb", opener=lambda file, _: os.open(file, flags)) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if about.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
        return file.read()


def read_text(path: str | os.PathLike[str], most: int = SETTINGS, encoding: str = "utf-8") -> str:
    """Return the text of a regular file of at most ``most`` bytes."""
    return read_file(path, most).decode(encoding)


def why_unread(error: Exception) -> str:
    """Return in a few words why a file was not read."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not a text file in UTF-8"
    return getattr(error, "strerror", None) or " ".join(str(error).split())


# Arrays


def to_npy(array: AnyArray) -> bytes:
    """Return an array as the bytes of an ``.npy`` file, row by row.

    >>> from_npy(to_npy(np.arange(3.0)), "it")
    array([0., 1., 2.])
    """
    buffer = BytesIO()
    little = np.asarray(array, order="C", dtype=array.dtype.newbyteorder("<"))
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def from_npy(
    data: bytes | memoryview,
    what: str = "",
    shape: tuple[int, ...] | None = None,
    dtypes: Collection[str] | None = ("<f8",),
    finite: bool = False,
) -> AnyArray:
    """Return the array in the bytes of an ``.npy`` file, or refuse them; messages begin with ``what``.

    ``dtypes`` are the types that are allowed; None allows all but objects, which would be unpickled.
    """
    stream = BytesIO(data)
    try:
        array = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as error:  # numpy parses the header as a literal, which fails in many ways
        raise Refused(f"{what} is not a whole array in the .npy format".lstrip()) from error
    if dtypes is not None and array.dtype.str not in dtypes:
        raise Refused(f"{what} holds {array.dtype}, which is not allowed here".lstrip())
    if shape is not None and array.shape != shape:
        raise Refused(f"{what} has the shape {array.shape}, but {shape} is needed".lstrip())
    if stream.read(1):
        raise Refused(f"{what} goes on after its last number".lstrip())
    if finite and not np.isfinite(array).all():
        raise Refused(f"{what} holds NaN or infinite values".lstrip())
    return array


# Writing


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; an earlier one stays until the new one is on the disk.

    File and directory are flushed, so that the file survives even if the machine stops.
    """
    draft = path.with_name(f"{path.name}.draft")
    try:
        with open(draft, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        with suppress(PermissionError):  # where directories cannot be opened, they flush themselves
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def dump_toml(settings: Mapping[str, Any], comment: str = "") -> str:
    """Return settings as TOML text: text, numbers, true/false, lists of them, tables.

    Entries that are None are left out, as TOML has no null; types that TOML does not have become
    text. ``comment`` comes first.

    >>> print(dump_toml({"alpha": 0.1, "graph": None, "for": {"no 1": "tree"}}, "by hand"), end="")
    # by hand
    alpha = 0.1
    <BLANKLINE>
    [for]
    "no 1" = "tree"
    """
    import tomli_w

    def known(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: known(entry) for key, entry in value.items() if entry is not None}
        if isinstance(value, list | tuple):
            return [known(entry) for entry in value]
        return value if isinstance(value, bool | int | float) else str(value)

    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, tomli_w.dumps(known(settings))]) or "\n"
