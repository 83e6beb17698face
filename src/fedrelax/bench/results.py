"""``python -m fedrelax.bench.results FILE`` measures everything and writes a Markdown page.

Every problem runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any


def measured(*arguments: str) -> dict[str, Any]:
    """Run ``fedrelax bench linear`` in a new process and return what it printed."""
    command = [sys.executable, "-m", "fedrelax", "bench", "linear", *arguments, "--json"]
    print("running", *command[2:], file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def machine() -> list[str]:
    """Return the facts of this machine that explain its figures."""
    model = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return [
        f"- processor: {model}, {os.cpu_count()} cores",
        f"- system: {platform.system()} {platform.machine()}, Python {platform.python_version()}",
        f"- {packages}",
    ]


def floor_table(cases: list[dict[str, Any]]) -> list[str]:
    """Return rounds against memcpy, one line per problem."""
    lines = [
        "| nodes | features | public sets | type | round | bytes per round | memcpy of them | round / memcpy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        lines.append(
            f"| {case['nodes']:,} | {case['features']} | {case['public']} | {case['dtype']} "
            f"| {case['round_seconds'] * 1e3:.2f} ms | {case['bytes_per_round'] / 1e6:.0f} MB "
            f"| {case['memcpy_seconds'] * 1e3:.2f} ms | **{case['round_over_memcpy']:.2f}** |"
        )
    return lines


def solve_table(cases: list[dict[str, Any]]) -> list[str]:
    """Return time and memory to a residual of 1e-6, one line per problem."""
    lines = [
        "| nodes | features | public sets | rounds | end to end | stored | peak above the input | peak / stored | whole process |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        peak, stored = case["peak_bytes_above_input"], case["stored_bytes"]
        lines.append(
            f"| {case['nodes']:,} | {case['features']} | {case['public']} | {case['rounds_to_1e-6']} "
            f"| {case['end_to_end_seconds']:.2f} s | {stored / 1e9:.2f} GB | {peak / 1e9:.2f} GB "
            f"| {peak / stored:.2f} | {case['peak_bytes_of_process'] / 1e9:.2f} GB |"
        )
    return lines


def page() -> str:
    """Measure, and return the page."""
    small = [
        measured("--nodes", "150", "--features", d, "--public", "per-node") for d in ("10", "50")
    ]
    cases = [
        measured("--nodes", "10000", "--features", "50", "--public", kind)["engine"]
        for kind in ("common", "per-node")
    ]
    cases += [
        measured("--nodes", "200000", "--features", "10", "--public", "common", "--dtype", kind)[
            "engine"
        ]
        for kind in ("f64", "f32")
    ]
    sizes = "10000,30000,100000,300000,1000000"
    million = measured("--nodes", "1000000", "--features", "10")["engine"]
    growth = measured("--nodes", "10000", "--features", "10", "--scaling", sizes)["scaling"]
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`; every ratio comes from one run.",
        "",
        *machine(),
        "",
    ]
    lines += ["## Against a plain PyTorch loop", ""]
    lines += ["150 nodes, 10 rows each, 100 public rows per node, one RMSprop round."]
    lines += [
        '"loop" has one autograd term per neighbour, as the algorithm is written; "stacked" has all'
    ]
    lines += ["neighbours' rows of a node prepared in one term.", ""]
    lines += [
        "| features | engine | loop | times faster | stacked | times faster |",
        "|---|---|---|---|---|---|",
    ]
    for both in small:
        case = both["autograd"]
        if "autograd_loop_seconds" in case:
            lines.append(
                f"| {case['features']} | {case['rmsprop_seconds'] * 1e6:.0f} µs "
                f"| {case['autograd_loop_seconds']:.2f} s | **{case['rmsprop_times_faster_than_loop']:,.0f}** "
                f"| {case['autograd_stacked_seconds'] * 1e3:.0f} ms "
                f"| **{case['rmsprop_times_faster_than_stacked']:,.0f}** |"
            )
    lines += ["", "## One round against the memory limit", "", *floor_table(cases)]
    lines += ["", "## To a relative residual of 1e-6", "", *solve_table([*cases, million])]
    lines += [
        "",
        "## Growth",
        "",
        f"End-to-end seconds grow as n^**{growth['exponent']:.2f}** (10 features).",
    ]
    lines += ["", "| nodes | end to end | rounds |", "|---|---|---|"]
    lines += [
        f"| {line['nodes']:,} | {line['end_to_end_seconds']:.2f} s | {line['rounds_to_1e-6']} |"
        for line in growth["lines"]
    ]
    lines += [
        "",
        "## Acceleration",
        "",
        "Rounds to a residual of 1e-6 at alpha = 1, 150 nodes.",
        "",
    ]
    lines += ["| features | plain | accelerated | ratio |", "|---|---|---|---|"]
    for both in small:
        case = both["acceleration"]
        lines.append(
            f"| {case['features']} | {case['plain_rounds']} | {case['accelerated_rounds']} | {case['ratio']:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
