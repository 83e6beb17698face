"""Commands as a person runs them: in a terminal of a given width, whose screen can be read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

PIECE = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<what>[A-Za-z])|(?P<move>[\r\n])|(?P<text>.)")
LOOKS = "mhl"
"""Control sequences that change how text looks, or the cursor, but not where it is."""
MISLEADING = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables that let rich believe something else than the terminal says."""


@dataclass(frozen=True)
class Shown:
    """What a command has sent to the terminal, and its exit code."""

    code: int
    raw: str
    columns: int

    @property
    def bars(self) -> list[str]:
        """Every bar that was drawn: what was being done, how long so far, and how long to go."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\r", self.raw)
        plain = re.sub(r"(?<=[━╸╺ ])\r+(?=[━╸╺ ])", "", plain)
        return [line for line in re.split(r"[\r\n]+", plain) if re.search("[━╸╺]{3}", line)]

    @property
    def screen(self) -> list[str]:
        """The lines that are left when the command has ended."""
        return self._played()[0]

    @property
    def broken(self) -> list[str]:
        """Lines that the terminal broke within a word, with a bar where it did."""
        return self._played()[1]

    def _played(self) -> tuple[list[str], list[str]]:
        lines, broken, row, column = [""], [], 0, 0
        for piece in PIECE.finditer(self.raw):
            what, text, move = piece["what"], piece["text"], piece["move"]
            if text is not None:
                if column == self.columns:
                    if lines[row][-1] != " " != text:
                        broken.append(f"{lines[row]}|{text}")
                    row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
                lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + 1 :]
                column += 1
            elif move is not None:
                row, column = (row + 1, column) if move == "\n" else (row, 0)
                lines += [""] * (row + 1 - len(lines))
            elif what == "A":
                row = max(row - int(piece["numbers"] or 1), 0)
            elif what == "K":
                lines[row] = lines[row][:column] if piece["numbers"] != "2" else ""
            else:
                assert what in LOOKS, f"the screen does not know the sequence {piece[0]!r}"
        return [line.rstrip() for line in lines], broken

    def check(self) -> None:
        """Assert that the command ended well, broke no word, and left no bar behind."""
        assert self.code == 0, self.raw
        text = "\n".join(self.screen)
        assert "Traceback" not in text and "unexpected" not in text, text
        assert self.broken == []
        assert not re.search(r"[━╸╺]{3} \d:\d\d:\d\d", text), text


@dataclass(frozen=True)
class Terminal:
    """Runs commands of fedrelax in a directory."""

    home: Path
    columns: int = 80

    def __call__(self, *words: str, module: str = "fedrelax", seconds: float = 600.0) -> Shown:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self.columns, 0, 0))
        env = {name: value for name, value in os.environ.items() if name not in MISLEADING}
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=self.home,
            env={**env, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            raw = _read(ours, time.monotonic() + seconds)
            return Shown(process.wait(10), raw.decode("utf-8"), self.columns)
        finally:
            process.kill()
            process.wait()
            os.close(ours)


def _read(side: int, end: float) -> bytes:
    """Return all that comes from the other side of a terminal until that is closed."""
    parts = []
    while time.monotonic() < end and select.select([side], [], [], end - time.monotonic())[0]:
        try:
            part = os.read(side, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)
