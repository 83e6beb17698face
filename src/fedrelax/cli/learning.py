"""What ``fedrelax serve --learn`` does with new rows: each request gives a new result."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrelax.cli.console import Talk
from fedrelax.cli.new_rows import Grown, rows_in, stacked
from fedrelax.storage.growing import save_grown
from fedrelax.storage.loading import read_result

SOURCE = Path("the request")
"""What messages call the table of new rows."""


class Learner:
    """Learns from new rows; each call writes a new result to DIR.learned/0001, 0002, ...

    The result in DIR stays as it is, and each new one links to the files that have not changed.
    """

    def __init__(self, directory: Path, table: Path, trust: tuple[str, ...], talk: Talk) -> None:
        self._home = directory.with_name(f"{directory.name}.learned")
        self._number = max([0, *(int(path.name) for path in self._home.glob("[0-9]" * 4))])
        self._talk = talk
        self._grown = Grown.of(directory, self._next(), table, trust, False, False, talk)

    def _next(self) -> Path:
        self._number += 1
        return self._home / f"{self._number:04d}"

    @contextmanager
    def __call__(self, frame: Any) -> Iterator[Path]:
        """Predict rows, learn from them and save; if that or the block fails, take everything back."""
        grown = self._grown
        rows = stacked(rows_in(SOURCE, grown, self._talk, frame=frame))
        grown.fitted.update(*rows)
        try:
            self._home.mkdir(exist_ok=True)
            out = save_grown(grown.out, grown.saved, grown.fitted)
            try:
                saved = read_result(out)
                yield out
            except BaseException:
                shutil.rmtree(out)
                raise
        except BaseException:
            grown.fitted.living_.undo()
            raise
        self._grown = replace(grown, saved=saved, out=self._next())
