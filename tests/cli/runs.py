"""Small tables and a way to run the command line in this process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from fedrelax.cli.app import app

MADE: dict[tuple[object, ...], tuple[str, Path]] = {}
"""What commands printed and wrote, by their words and the files that they found."""


class Run:
    """Runs a command in a directory of its own and remembers what came back."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *words: object) -> str:
        """Return everything that was printed; the exit code is in ``code``."""
        result = CliRunner().invoke(app, [str(word) for word in words])
        self.code = result.exit_code
        self.output, self.stdout = result.output, result.stdout
        assert "Traceback" not in result.output
        return " ".join(result.output.split())

    def made(self, *words: object) -> str:
        """Run a command that several tests begin with: once, and then copy what it wrote here."""
        files = {path.name: path.read_bytes() for path in self.home.iterdir() if path.is_file()}
        key = (*map(str, words), *sorted(files.items()))
        if key not in MADE:
            before = set(self.home.iterdir())
            text = self(*words)
            assert self.code == 0, self.output
            kept = Path(tempfile.mkdtemp(prefix="made-"))
            for path in set(self.home.iterdir()) - before:
                shutil.copytree(path, kept / path.name)
            MADE[key] = text, kept
            atexit.register(shutil.rmtree, kept)
            return text
        text, kept = MADE[key]
        shutil.copytree(kept, self.home, dirs_exist_ok=True)
        return text

    def refused(self, *words: object, out: str = "out") -> str:
        """Return the error's sentence; check that it is bad input and that nothing is left."""
        before = sorted(self.home.rglob("*"))
        text = self(*words)
        assert self.code == 2, self.output
        assert "error: " in text
        new = [p for p in self.home.rglob("*") if p not in before and "__pycache__" not in p.parts]
        assert new == []
        return text.partition("error: ")[2]


def towns(rows: int = 8) -> pd.DataFrame:
    """Four towns on a road; nearby towns follow nearly the same linear rule."""
    rng = np.random.default_rng(5)
    frames = []
    for k, town in enumerate(["Oslo", "Hamar", "Dombås", "Bodø"]):
        x = rng.normal(size=(rows, 2)).round(3)
        y = x @ [1 + 0.1 * k, -1] + 0.3 * rng.normal(size=rows)
        frames.append(
            pd.DataFrame(
                {
                    "town": town,
                    "lat": 60.0 + k,
                    "lon": 10.0,
                    "wind": x[:, 0],
                    "sun": x[:, 1],
                    "power": y.round(4),
                    "alarm": np.where(y > 0, "high", "low"),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


FIT = ("fit", "towns.csv", "--node", "town", "--target", "power", "--features", "wind,sun")
QUICK = ("--alpha", "0.3", "--rounds", "2", "--model", "linear", "--out", "out")
