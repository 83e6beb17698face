"""Tables as ugly as those that people have, drawn at random; ``benchmarks.fuzz --tables`` tries many."""

from __future__ import annotations

import csv
import io
import random
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from typer.main import get_command

from fedrelax.cli.app import app
from fedrelax.datasets import read_table

Make = Callable[[random.Random, int], list[str]]

GAPS = ("", "n/a", "NA", "-", "?", "nan", "NULL", "#DIV/0!", " ")
ODD = (
    "call us",
    "12x4",
    "inf",
    "-Infinity",
    "1e999",
    "~5",
    "=SUM(A1:A3)",
    "2024-13-45",
    "\u2026",
    '"',
)
NODES = (
    ["a", "b", "c"],
    ["Zürich", "Łódź", "北京", "Dombås"],
    ["007", "07", "7"],
    ["1", "2", "3", "4"],
    ["north, east", 'the "old" mill', "two\nlines"],
    [" a", "a ", "b"],
    ["1.0", "2.5", "1e3"],
    ["NA", "nan", "None"],
    ["=1+1", "@x", "-y"],
    ["x" * 300, "y"],
)


def _number(rng: random.Random) -> float:
    return rng.choice(
        [rng.gauss(0, 1), rng.gauss(1000, 400), rng.expovariate(1e-4), float(rng.randint(-9, 9))]
    )


def _swap(text: str) -> str:
    return text.translate(str.maketrans(",.", ".,"))


def _each(make: Callable[[random.Random], str]) -> Make:
    return lambda rng, rows: [make(rng) for _ in range(rows)]


def _moments(rng: random.Random, rows: int) -> list[str]:
    """Return times with offsets as they change over the year, or in a random mixture of formats."""
    forms = rng.sample(
        ["{y}-{m:02d}-{d:02d}T{h:02d}:30:00+0{o}:00", "{y}-{m:02d}-{d:02d}", "{d:02d}.{m:02d}.{y}",
         "{m}/{d}/{y}", "{y}-{m:02d}-{d:02d} {h:02d}:05", "{d}/{m}/{y} {h:02d}:00",
         "{y}-{m:02d}-{d:02d}T{h:02d}:00:00Z", "{y}{m:02d}{d:02d}", "{m:02d}/{y}"],
        rng.choice([1, 1, 1, 2, 3]),
    )  # fmt: skip
    found = []
    for _ in range(rows):
        m = rng.randint(1, 12)
        day = {"y": rng.choice([1970, 2023, 2024, 9999]), "m": m, "d": rng.randint(1, 28)}
        found.append(rng.choice(forms).format(h=rng.randint(0, 23), o=1 + (4 <= m <= 10), **day))
    return found


def _constant(rng: random.Random, rows: int) -> list[str]:
    return [rng.choice(["", "5", "same", "0", "€3", "2024-01-01", "n/a", "true"])] * rows


COLUMNS: dict[str, Make] = {
    "plain": _each(lambda rng: f"{_number(rng):.4g}"),
    "whole": _each(lambda rng: str(rng.randint(-50, 50))),
    "classes": _each(lambda rng: rng.choice(["yes", "no", "maybe"])),
    "flags": _each(lambda rng: rng.choice(["true", "False", "TRUE"])),
    "decimal comma": _each(lambda rng: _swap(f"{_number(rng):.3f}")),
    "thousands": _each(lambda rng: f"{_number(rng) * 1000:,.2f}"),
    "ambiguous": _each(lambda rng: f"{rng.randint(1, 999)},{rng.randint(0, 999):03d}"),
    "ambiguous points": _each(lambda rng: f"{rng.randint(1, 999)}.{rng.randint(0, 999):03d} €"),
    "euros": _each(lambda rng: f"€{abs(_number(rng)):,.2f}"),
    "euros after": _each(lambda rng: _swap(f"{_number(rng):,.2f}") + " €"),
    "spaced": _each(lambda rng: f"{_number(rng) * 1000:,.2f}".replace(",", "\u00a0")),
    "currencies": _each(lambda rng: rng.choice(["$", "EUR ", "£", "US$"]) + f"{_number(rng):.2f}"),
    "percents": _each(lambda rng: f"{rng.random() * 100:.1f}" + rng.choice(["%", " %"])),
    "moments": _moments,
    "constant": _constant,
    "codes": _each(lambda rng: f"{rng.randint(0, 99999):05d}"),
    "wide": _each(lambda rng: str(rng.randint(10**15, 10 ** rng.choice([17, 22, 40, 400])))),
    "words": _each(
        lambda rng: " ".join(rng.choices(["red", "Öl", "x;y", "a,b", "l1\nl2", 'q"q'], k=3))
    ),
    "extreme": _each(lambda rng: rng.choice(["1e300", "-1e308", "5e-324", "0", "1e-200", "3"])),
    "strange words": _each(lambda rng: rng.choice([*ODD, *GAPS])),
    "mixed": _each(
        lambda rng: rng.choice([f"{_number(rng):.2f}", "€5", "7%", "x", "", "1,5", "2024-01-01"])
    ),
}
TARGETS = ("plain", "plain", "whole", "classes", "classes", "flags", "decimal comma", "euros", "percents",
           "constant", "ambiguous", "moments", "strange words", "extreme", "codes", "mixed",
           "thousands")  # fmt: skip
MORE = (
    ("--task", "classification"),
    ("--task", "regression"),
    ("--test-share", "0"),
    ("--split-by", "none"),
)
ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-16-le")


COMMANDS = get_command(app)


@dataclass(frozen=True)
class UglyTable:
    """A file, the names of its node and target columns, and the flags with which it is fitted."""

    content: bytes
    node: str
    target: str
    flags: tuple[str, ...]
    kinds: tuple[str, ...]


def ugly_table(seed: int) -> UglyTable:
    """Return the table of a seed."""
    rng = random.Random(f"ugly table {seed}")
    rows = rng.choices([0, 1, 3, 8, 20, 30, 40], [1, 1, 2, 6, 10, 10, 10])[0]
    nodes = rng.choice(NODES) if rng.random() > 0.02 else ["only"]
    shares = [rng.choice([0.2, 1, 1, 3]) for _ in nodes]
    column = rng.choices(nodes, shares, k=rows)
    if rng.random() < 0.02 and rows:
        column[rng.randrange(rows)] = ""
    features = min(rng.randint(0, 20), rng.randint(1, 5))
    kinds = [rng.choice(TARGETS), *rng.choices(list(COLUMNS), k=features)]
    cells = [column, *(_spoilt(COLUMNS[kind](rng, rows), rng) for kind in kinds)]
    if rng.random() < 0.1 and len(cells) > 2:  # a column, or the target, that is empty at a node
        hit = rng.randrange(1, len(cells))
        cells[hit] = [
            "" if node == column[0] else cell for node, cell in zip(column, cells[hit], strict=True)
        ]
    names = ["site", "y", *(f"{kind} {k}" for k, kind in enumerate(kinds[1:]))]
    if rng.random() < 0.04 and len(names) > 2:
        names[-1] = rng.choice(["y", "site", "", " y ", "prediction"])
    order = rng.sample(range(len(names)), len(names))
    lines = [[names[k] for k in order], *([cells[k][row] for k in order] for row in range(rows))]
    flags = rng.choice([("--quick",), ("--alpha", "0.3", "--rounds", "2", "--model", "linear")])
    flags += rng.choice([*[()] * 4, *MORE])
    content = _encoded(_text(lines, rng), rng)
    return UglyTable(content, "site", "y", flags, tuple(kinds))


def _spoilt(cells: Sequence[str], rng: random.Random) -> list[str]:
    """Return cells with some gaps, some odd values, or neither."""
    gaps, odd = rng.choice([(0, 0), (0, 0), (0.1, 0), (0.05, 0.03), (0.5, 0), (0.9, 0)])
    word = rng.choice(GAPS)
    return [
        word if rng.random() < gaps else rng.choice(ODD) if rng.random() < odd else cell
        for cell in cells
    ]


def _text(lines: Sequence[Sequence[str]], rng: random.Random) -> str:
    file = io.StringIO()
    every = rng.random() < 0.2
    end = rng.choice(["\n", "\n", "\r\n", "\r"])
    csv.writer(
        file,
        delimiter=rng.choice(",,;;\t|"),
        lineterminator=end,
        quoting=csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL,
    ).writerows(lines)
    text = file.getvalue()
    if rng.random() < 0.05:
        text = rng.choice(
            ["\n\n" + text, text + "\n\n", text.rstrip() + ",,", text + '"', "title\n" + text]
        )
    return text


def _encoded(text: str, rng: random.Random) -> bytes:
    content = text.encode(rng.choice(ENCODINGS), "replace")
    return content[: len(content) // 2] if rng.random() < 0.02 else content


@dataclass(frozen=True)
class Outcome:
    """What came of a table: whether it was fitted and predicted, the error if not, and processor time."""

    fitted: bool
    predicted: bool
    text: str
    seconds: float


def outcome_of(table: UglyTable, folder: Path) -> Outcome:
    """Fit a table, then predict its own rows; fail unless each gives a result or one sentence."""
    file, out = folder / "table.csv", folder / "out"
    file.write_bytes(table.content)
    start = time.process_time()
    fit = ["fit", file, "--node", table.node, "--target", table.target, "--out", out, *table.flags]
    fitted, text = _run(fit)
    predicted = False
    if fitted:
        answers = folder / "predictions.csv"
        predicted, text = _run(["predict", out, file, "--out", answers])
        found = read_table(answers, as_text=True) if predicted else {}
        numbers = predicted and not any(name.startswith("p(") for name in found)
        assert not numbers or np.isfinite(found["prediction"].astype(float)).all(), found
    return Outcome(fitted, predicted, text, time.process_time() - start)


def _run(words: Sequence[object]) -> tuple[bool, str]:
    """Run a command; return whether it gave a result, and its error if it did not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(COMMANDS, [str(word) for word in words])
    error = result.output.partition("error: ")[2].strip()
    assert result.exit_code in (0, 2), result.output[-2000:]
    assert "Traceback" not in result.output and "unexpected" not in error, result.output[-2000:]
    assert result.exit_code == 0 or error, result.output[-2000:]
    return result.exit_code == 0, error
