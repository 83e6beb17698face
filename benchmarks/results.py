"""``python -m benchmarks.results FILE`` measures everything and writes a Markdown page.

Every problem runs in its own process, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.speed.problems import exponent

SIZES = (10_000, 100_000, 1_000_000)
"""Numbers of nodes of the networks on which ``fit`` is timed."""
Found = dict[str, Any]


def run(module: str, *arguments: str) -> Found:
    """Run a module in a new process and return the JSON object that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    print("running", *command[2:], file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def bench(name: str, **options: object) -> Found:
    """Run ``python -m benchmarks.speed NAME`` in a new process."""
    flags = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    return run("benchmarks.speed", name, *flags, "--json")


def machine() -> list[str]:
    """Return the facts about this machine that explain its numbers."""
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


def table(*columns: str, lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table with an empty line after it."""
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return [*head, *(f"| {' | '.join(line)} |" for line in lines), ""]


def fit_section(cases: Sequence[Found]) -> list[str]:
    """Return the section on a user's ``fit``, compared with the engine in the same process."""
    lines = [
        (
            f"{fit['nodes']:,}",
            f"{fit['features']}",
            fit["public"],
            f"**{fit['seconds']:.2f} s**",
            f"{fit['rounds']}",
            f"{fit['peak_bytes_of_process'] / 1e9:.2f} GB",
            f"{fit['peak_bytes_above_input'] / 1e9:.2f} GB",
            f"{engine['seconds']:.2f} s",
            f"**{fit['times_the_engine']:.2f}**",
            f"{fit['largest_difference']:.1e}",
        )
        for fit, engine in ((case["fit"], case["engine"]) for case in cases)
    ]
    grown = [case["fit"] for case in cases if case["fit"]["nodes"] in SIZES]
    growth = exponent([fit for fit in grown if fit["features"] == 10], "seconds")
    return [
        "## `FedRelaxRegressor.fit`",
        "",
        "From plain arrays to fitted models, 10 rows per node, nearest-neighbour graph of mean degree 10,",
        "alpha 0.1, ridge 0.1, all else at its default. Beside it, the bare engine in the same process on the same",
        "arrays, run to a relative residual of 1e-8, and the largest difference between the two sets of weights.",
        "Each runs twice, and the faster run counts.",
        f"The time of `fit` grows as n^**{growth:.2f}** (10 features).",
        "",
        *table(
            "nodes", "features", "public sets", "`fit`", "rounds", "peak of the process",
            "peak above the input", "engine", "`fit` / engine", "difference",
            lines=lines,
        ),
    ]  # fmt: skip


def engine_section(cases: Sequence[Found]) -> list[str]:
    """Return the section on the engine's parts, and on a round against the memory limit."""
    lines = [
        (
            f"{fit['nodes']:,}",
            f"{fit['features']}",
            fit["public"],
            f"{engine['gram_seconds']:.2f} s",
            f"{engine['factor_seconds']:.2f} s",
            f"{engine['solve_seconds']:.2f} s",
            f"{engine['rounds']}",
            f"{engine['stored_bytes'] / 1e9:.2f} GB",
            f"{engine['round_seconds'] * 1e3:.2f} ms",
            f"{engine['bytes_per_round'] / 1e6:.0f} MB",
            f"**{engine['round_over_memcpy']:.2f}**",
        )
        for fit, engine in ((case["fit"], case["engine"]) for case in cases)
    ]
    return [
        "## The engine",
        "",
        "Its parts, and one plain round, on the network of `fit`, compared with a copy (memcpy) of the bytes",
        "that it must move.",
        "",
        *table(
            "nodes", "features", "public sets", "Gram matrices", "inverses", "all rounds", "number of rounds",
            "stored", "one round", "bytes", "round / memcpy",
            lines=lines,
        ),
    ]  # fmt: skip


def autograd_section() -> list[str]:
    """Return the section on one round against a plain PyTorch loop."""
    lines = []
    for features in ("10", "50"):
        case = run("benchmarks.autograd", features)
        lines.append(
            (
                features,
                f"{case['engine_seconds'] * 1e6:.0f} µs",
                f"{case['loop_seconds']:.2f} s",
                f"**{case['times_faster_than_loop']:,.0f}**",
                f"{case['stacked_seconds'] * 1e3:.0f} ms",
                f"**{case['times_faster_than_stacked']:,.0f}**",
            )
        )
    return [
        "## Against a plain PyTorch loop",
        "",
        "150 nodes, 10 rows each, 100 public rows per node, one RMSprop round.",
        '"loop" has one autograd term per neighbour, as the algorithm is written; "stacked" has all',
        "neighbours' rows of a node stacked into one term.",
        "",
        *table(
            "features", "engine", "loop", "times faster", "stacked", "times faster", lines=lines
        ),
    ]


def nets_section() -> list[str]:
    """Return the section on nets of one architecture, trained at once and one by one."""
    found = bench("nets")
    case, growth = found["nets"], found["scaling"]
    lines = [
        (f"{line['nodes']:,}", f"{line['round_seconds']:.3f} s", f"{line['per_node_us']:.0f} µs")
        for line in growth["lines"]
    ]
    return [
        "## Nets",
        "",
        f"{case['nodes']} perceptrons 10-32-1, 10 rows each, 100 common public rows, "
        f"{case['steps_per_round']} steps per round: {case['batched_round_seconds'] * 1e3:.0f} ms per round "
        f"at once, {case['loop_round_seconds']:.2f} s one by one, **{case['times_faster']:.0f}** times "
        "faster. At once, the time of a round grows as "
        f"n^**{growth['exponent']:.2f}**:",
        "",
        *table("nodes", "one round", "per node", lines=lines),
    ]


def wiring_section() -> list[str]:
    """Return the section on what rewiring adds to a run."""
    case = bench("wiring")["wiring"]
    return [
        "## Rewiring",
        "",
        f"{case['nodes']:,} linear models, {case['edges']:,} edges, {case['rounds']} rounds: "
        f"{case['fixed_seconds']:.2f} s with a fixed graph, {case['rewire_seconds']:.2f} s with a "
        f"rewired one, **{case['ratio']:.2f}** times as long.",
        "",
    ]


def page() -> str:
    """Measure everything and return the page."""
    cases = [bench("linear", nodes=nodes, features=10) for nodes in SIZES]
    cases += [
        bench("linear", nodes=10_000, features=50, public=kind) for kind in ("common", "per-node")
    ]
    title = ["# Benchmarks", "", "Made by `make bench`; every ratio comes from one run."]
    lines = [*title, "", *machine(), "", *fit_section(cases), *engine_section(cases)]
    lines += wiring_section()
    if find_spec("torch") is not None:
        lines += autograd_section() + nets_section()
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
