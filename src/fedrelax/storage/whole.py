"""Replacing single files atomically: the old or the new one is always complete, even after a kill."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

DRAFT = ".draft"
"""The ending of files that are not complete yet."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, replacing any earlier one, which stays until the new one is on the disk.

    File and directory are flushed, so that the file survives even if the machine stops. Drafts that
    killed processes have left behind are removed.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}{DRAFT}")
    for other in path.parent.glob(f"{path.name}.*{DRAFT}"):
        if not _is_alive(other.name.removesuffix(DRAFT).rpartition(".")[2]):
            other.unlink(missing_ok=True)
    try:
        with open(draft, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        _flush_directory(path.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _is_alive(process: str) -> bool:
    """Tell whether a process with this ID runs; assume so if it is not a number."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, OSError):
        return True
    return True


def _flush_directory(directory: Path) -> None:
    """Make a rename durable; systems that cannot open directories do that themselves."""
    with suppress(PermissionError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
