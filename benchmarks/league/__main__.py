"""``python -m benchmarks.league``: run the ways that have no result yet, then print the table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.league.ours import OURS
from benchmarks.league.running import run
from benchmarks.league.summary import tell
from benchmarks.league.tables import TABLES
from benchmarks.league.usual import CLASSES, REGRESSION

HERE = Path(__file__).parent


def main(words: list[str]) -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.league", description=__doc__)
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="only these tables")
    parser.add_argument(
        "--only",
        choices=["development", "fresh", "newer", "last", "final"],
        help="only these tables",
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of splits (5)")
    parser.add_argument("--unequal", action="store_true", help="10 to 70 %% of each group's rows")
    parser.add_argument("--show", action="store_true", help="run nothing, print the results so far")
    parser.add_argument("--ours", action="store_true", help="run fedrelax, not the usual ways")
    parser.add_argument("--again", action="store_true", help="first delete fedrelax's results")
    chosen = parser.parse_args(words)
    tables = [
        t
        for t in TABLES
        if (chosen.tables is None or t.name in chosen.tables)
        and (chosen.only is None or t.league == chosen.only)
    ]
    seeds, usual, ours = range(chosen.seeds), HERE / "usual.csv", HERE / "ours.csv"
    if chosen.again:
        ours.unlink(missing_ok=True)
    if not chosen.show:
        ways = {"regression": REGRESSION, "classes": CLASSES}
        if not chosen.ours:
            run(tables, ways, seeds, usual, chosen.unequal)
        run(tables, OURS, seeds, ours, chosen.unequal)
    print(tell([usual, ours], tables, chosen.unequal))


if __name__ == "__main__":
    main(sys.argv[1:])
