"""Made-up inputs for every parser: ``python -m benchmarks.fuzz --inputs 100000`` shares them out evenly.

Each must end in a valid result or in one sentence of ours, within 5 seconds, in a process that may
take 2 GB at most. The smallest input that does not is printed for each parser, and the command fails.
The inputs come from ``tests/fuzzing.py``, in batches with seeds of their own; ``--seed`` draws others.
"""

from __future__ import annotations

import argparse
import resource
import signal
import time
import warnings
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzzing import PARSERS, sentence_or_result

MEMORY = 2 << 30
SECONDS = 5
BATCH = 1000


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"a parser took more than {SECONDS} seconds")


def run(name: str, inputs: int, first: int) -> int:
    """Try so many inputs on one parser, and return how many were tried."""
    tried = 0
    strategy: Any = PARSERS[name][1]

    def one(data: Any) -> None:
        nonlocal tried
        given_input = data.draw(strategy)
        tried += 1
        signal.alarm(SECONDS)
        try:
            sentence_or_result(name, given_input)
        finally:
            signal.alarm(0)

    for batch in range(0, inputs, BATCH):
        limits = settings(
            max_examples=min(BATCH, inputs - batch),
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        seed(first + batch)(limits(given(st.data())(one)))()
    return tried


def main() -> None:
    """Fuzz all parsers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=7000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    warnings.simplefilter("ignore")
    total, failed = 0, []
    for name in PARSERS:
        start = time.perf_counter()
        try:
            tried = run(name, -(-asked.inputs // len(PARSERS)), asked.seed)
        except Exception as error:
            failed.append(name)
            print(
                f"{name:14} FAILS: {type(error).__name__}: {error}; {error.__notes__}", flush=True
            )
            continue
        total += tried
        print(f"{name:14} {tried:7,} inputs {time.perf_counter() - start:7.1f} s", flush=True)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{total:,} inputs, each a valid result or one sentence; at most {most:.2f} GB")
    if failed:
        raise SystemExit(f"not so: {', '.join(failed)}")


if __name__ == "__main__":
    main()
