"""Random inputs for every parser: ``python -m benchmarks.fuzz --inputs 100000`` divides them among all.

Each must give a valid result or one of our one-sentence errors, within 10 seconds, in a process limited to
2 GB. Where valid inputs are known, nine inputs in ten are valid ones changed in a few places; the others
are drawn by the strategies of ``tests/fuzzing.py``. Each parser runs in its own process, watched by
another: a parser that hangs or dies is reported with the input that caused it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzzed_files import VALID, mutant
from tests.fuzzing import PARSERS, sentence_or_result

MEMORY = 2 << 30
SECONDS = 10
BATCH = 1000
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


def watched(name: str, inputs: int, first: int) -> tuple[int, str]:
    """Try inputs in a separate process; return how many were tried and what went wrong, if anything."""
    tried = multiprocessing.Value("q", 0)
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "last"
        child = multiprocessing.Process(target=work, args=(name, inputs, first, tried, last))
        child.start()
        before, since, fault = -1, time.monotonic(), ""
        while child.is_alive():
            child.join(0.5)
            if tried.value != before:
                before, since = tried.value, time.monotonic()
            elif tried.value and time.monotonic() - since > SECONDS:
                child.kill()
                child.join()
                fault = f"no progress for {SECONDS} seconds"
        if not fault and child.exitcode:
            fault = f"exit code {child.exitcode}"
        said = f"{fault}: {last.read_text()}" if fault and last.exists() else fault
        return tried.value, said


def main() -> None:
    """Fuzz all parsers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=7000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    total, failed = 0, []
    parts = {name: 1 if name in SLOW else 4 for name in PARSERS}
    for name, part in parts.items():
        start = time.perf_counter()
        count = -(-asked.inputs * part // sum(parts.values()))
        tried, fault = watched(name, count, asked.seed)
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
