"""Reading files that may come from anywhere: regular files of a limited size only.

A path may lead to a device that never ends or to a pipe that never answers. Everything here raises an
``OSError`` whose ``strerror`` says what is wrong, as for any other file that cannot be read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

KEY, SETTINGS, RESULT, TABLE = 2**16, 2**26, 2**31, 2**33
"""The most bytes that are read of a key, a settings file, a file of a result, and a table."""
CHUNK = 2**20


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes."""
    # Without O_NONBLOCK, opening a pipe would wait for somebody to write.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb", opener=lambda file, _: os.open(file, flags)) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        content = file.read(min(about.st_size, most) + 1)
        while len(content) <= most and (chunk := file.read(CHUNK)):  # it has grown
            content += chunk
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {_size(most)}", str(path))
    return content


def read_text(path: str | os.PathLike[str], most: int = SETTINGS, encoding: str = "utf-8") -> str:
    """Return the text of a regular file of at most ``most`` bytes."""
    return read_file(path, most).decode(encoding)


def why_unread(error: Exception) -> str:
    """Return in a few words why a file was not read."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not a text file in UTF-8"
    return getattr(error, "strerror", None) or " ".join(str(error).split())


def is_private(path: Path) -> bool:
    """Tell whether only its owner can read a file; always true where systems have no such modes."""
    return os.name != "posix" or not path.stat().st_mode & 0o077


def _size(count: int) -> str:
    """Return a number of bytes for a message.

    >>> _size(2**16), _size(2**26), _size(2**31)
    ('64 KB', '64 MB', '2 GB')
    """
    units = ("bytes", "KB", "MB", "GB")
    step = min((count.bit_length() - 1) // 10, 3)
    return f"{count >> 10 * step} {units[step]}"
