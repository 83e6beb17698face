"""Single files that replace a former one: one of both is always whole, whenever a process is killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

DRAFT = ".draft"
"""How files end that are not yet whole."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in place of a former one, which stays until this one is on the disk.

    Both file and directory are flushed, so that it is there even if the machine stops. What a process that
    was killed has left of such a file is removed.
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
    """Tell whether a process of this number runs; what is no number is nobody's to judge."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, OSError):
        return True
    return True


def _flush_directory(directory: Path) -> None:
    """Make a rename last; systems that cannot open directories do so by themselves."""
    with suppress(PermissionError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
