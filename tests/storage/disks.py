"""A small disk of its own for a test: real, so that it can really be full or turn read-only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


def mount(*words: object) -> bool:
    """Run mount; tell whether it worked."""
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, check=False)
    return done.returncode == 0


def fill(path: str | Path) -> None:
    """Write a file until nothing more goes in."""
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 512, 1):
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


class Disk:
    """A mounted file system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Write until nothing more goes in."""
        fill(self.path / "filler")

    def empty(self) -> None:
        """Make room again."""
        (self.path / "filler").unlink()

    def writable(self, yes: bool) -> None:
        """Mount it anew, read-only or not."""
        assert mount("-o", f"remount,{'rw' if yes else 'ro'}", self.path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of a few megabytes; skips where this user may not mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.name != "posix" or not mount("-t", "tmpfs", "-o", "size=16m", "tmpfs", path):
        pytest.skip("this user may not mount a small disk, which only root may")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
