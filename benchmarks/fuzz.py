"""Random inputs for every parser: ``python -m benchmarks.fuzz --inputs 100000`` divides them among all.

Each must give a valid result or one of our one-sentence errors, within 10 seconds, in a process limited to
2 GB. Where valid inputs are known, nine inputs in ten are valid ones changed in a few places; the others
are drawn by the strategies of ``tests/fuzzing.py``. Each parser runs in its own process, watched by
another: a parser that hangs or dies is reported with the input that caused it.

``--tables 2000`` instead fits that many ugly tables (``tests/ugly_tables.py``) and predicts their own rows:
each must give a result or one sentence within its time. One in four is fitted with all extras; the others
without matplotlib, which takes most of the time for small tables.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzzed_files import VALID, mutant
from tests.fuzzing import PARSERS, sentence_or_result
from tests.ugly_tables import outcome_of, ugly_table

MEMORY = 2 << 30
SECONDS = 10
BATCH = 1000
BUDGET = 60
"""Seconds of processor time that an ugly table may take; one that takes ten times that in all hangs."""
SLOW = ("table", "result", "whole result")
"""Parsers that read through pandas, which get a quarter of the inputs that others get."""


def drawn(name: str, inputs: int, first: int, note: Any) -> None:
    """Try inputs drawn by a strategy, in batches with different seeds."""
    strategy: Any = PARSERS[name][1]

    def one(data: Any) -> None:
        given_input = data.draw(strategy)
        note(given_input)
        sentence_or_result(name, given_input)

    for batch in range(0, inputs, BATCH):
        limits = settings(
            max_examples=min(BATCH, inputs - batch),
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        seed(first + batch)(limits(given(st.data())(one)))()


def changed(name: str, inputs: int, first: int, note: Any) -> None:
    """Try mutants of valid inputs."""
    rng = random.Random(f"{name} {first}")
    for _ in range(inputs):
        given_input = mutant(name, rng)
        note(given_input)
        sentence_or_result(name, given_input)


def work(name: str, inputs: int, first: int, tried: Any, last: Path) -> None:
    """Try so many inputs on one parser; a file keeps the latest, in case this process dies."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def note(given_input: Any) -> None:
        last.write_bytes(repr(given_input).encode("utf-8", "backslashreplace"))
        tried.value += 1

    mutants = inputs * 9 // 10 if name in VALID or name == "whole result" else 0
    try:
        changed(name, mutants, first, note)
        drawn(name, inputs - mutants, first, note)
    except BaseException:
        last.write_text(f"{last.read_text()[:2000]}\n{traceback.format_exc()[-3000:]}")
        raise SystemExit(1) from None


def watched(work: Callable[..., None], *args: Any, seconds: float = SECONDS) -> tuple[int, str]:
    """Try inputs in a separate process; return how many were tried and what went wrong, if anything."""
    tried = multiprocessing.Value("q", 0)
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "last"
        child = multiprocessing.Process(target=work, args=(*args, tried, last))
        child.start()
        before, since, fault = -1, time.monotonic(), ""
        while child.is_alive():
            child.join(0.5)
            if tried.value != before:
                before, since = tried.value, time.monotonic()
            elif tried.value and time.monotonic() - since > seconds:
                child.kill()
                child.join()
                fault = f"no progress for {seconds} seconds"
        if not fault and child.exitcode:
            fault = f"exit code {child.exitcode}"
        said = f"{fault}: {last.read_text()}" if fault and last.exists() else fault
        return tried.value, said


def work_on_tables(seeds: list[int], extras: bool, log: Path, tried: Any, last: Path) -> None:
    """Fit tables and add a line for each to a file: what came of it, its processor time and its number."""
    if not extras:
        sys.modules["matplotlib"] = None  # type: ignore[assignment]
    for number in seeds:
        last.write_text(f"table {number}")
        tried.value += 1
        with tempfile.TemporaryDirectory() as folder, log.open("a") as file:
            try:
                found = outcome_of(ugly_table(number), Path(folder))
                word = "predicted" if found.predicted else "fitted" if found.fitted else "refused"
                word, spent = (word, found.seconds) if found.seconds < BUDGET else ("late", BUDGET)
                file.write(f"{word} {spent:.1f} {number}\n")
            except Exception as error:
                file.write(f"unexpected 0 {number}\n")
                print(f"table {number} FAILS: {str(error)[-1000:]}", flush=True)


def fuzz_tables(count: int, first: int) -> None:
    """Fit ugly tables and print what came of them."""
    start, faults = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for extras in (True, False):
            seeds = [k for k in range(first, first + count) if (k % 4 == 0) == extras]
            faults.append(watched(work_on_tables, seeds, extras, log, seconds=10 * BUDGET)[1])
        lines = [line.split() for line in log.read_text().splitlines()]
    words = Counter(word for word, _, _ in lines)
    slowest = sorted(lines, key=lambda line: -float(line[1]))[:3]
    print(f"{count:,} tables in {time.perf_counter() - start:.0f} s:")
    print(
        f"{words['predicted']:,} fitted and predicted, {words['refused']:,} refused by a sentence,"
    )
    print(f"{words['fitted']:,} fitted and some of their rows refused by a sentence,")
    print(f"{words['unexpected']:,} unexpected, {words['late']:,} took over {BUDGET} s; slowest:")
    print(", ".join(f"table {number} ({spent} s)" for _, spent, number in slowest))
    for fault in filter(None, faults):
        print(f"FAILS: {fault}")
    if any(faults) or words["unexpected"] or words["late"]:
        raise SystemExit("some tables gave neither a result nor a sentence in time")


def main() -> None:
    """Fuzz all parsers, or fit ugly tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=7000)
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.tables:
        fuzz_tables(asked.tables, asked.seed)
        return
    total, failed = 0, []
    parts = {name: 1 if name in SLOW else 4 for name in PARSERS}
    for name, part in parts.items():
        start = time.perf_counter()
        count = -(-asked.inputs * part // sum(parts.values()))
        tried, fault = watched(work, name, count, asked.seed)
        total += tried
        print(f"{name:14} {tried:7,} inputs {time.perf_counter() - start:7.1f} s", flush=True)
        if fault:
            failed.append(name)
            print(f"{name:14} FAILS: {fault}", flush=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{total:,} inputs; peak memory {most:.2f} GB")
    if failed:
        raise SystemExit(f"neither a valid result nor a one-sentence error: {', '.join(failed)}")
    print("Each gave a valid result or a one-sentence error.")


if __name__ == "__main__":
    main()
