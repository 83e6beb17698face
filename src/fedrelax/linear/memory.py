"""How much memory a network of linear models needs, estimated before any is allocated."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from fedrelax.errors import FedRelaxError

Method = Literal["rounds", "accelerated", "conjugate"]
NUMBER, INDEX = 8, 4
"""Bytes of a number, and of an index in the graph's matrix."""
BUFFERS = 64 << 20
"""Memory for the buffers in which products and inverses are formed."""
_VECTORS: dict[str, int] = {"rounds": 4, "accelerated": 30, "conjugate": 8}


def estimate_bytes(
    n: int,
    d: int,
    q: int,
    n_edges: int,
    *,
    m: int | None = None,
    m_pub: int | None = None,
    method: Method = "rounds",
) -> int:
    """Return the peak memory, in bytes, of building and solving a problem, without the caller's arrays.

    ``n_edges`` counts each edge once, ``d`` includes the intercept; ``m`` is the largest number of rows
    at a node (None: at least d), and ``m_pub`` that of public rows (None: one common set). Besides the
    stored problem, this counts one inverse (n, d, d), a second operator of that size for per-node public
    sets, and the iteration's vectors (n, d, q).

    >>> round(estimate_bytes(1_000_000, 10, 1, 5_000_000, method="conjugate") / 1e9, 1)
    2.6
    """
    own = n * min(d, d if m is None else m) * d
    public = (d if m_pub is None else n * min(d, m_pub)) * d
    graph = 2 * n_edges * (NUMBER + INDEX) + n * INDEX
    matrices = 1 + int(m_pub is not None and method != "conjugate")
    vectors = n * (d * q * (1 + _VECTORS[method]) + q + d + 1)
    return (own + public + n * d * d * matrices + vectors) * NUMBER + graph + BUFFERS


def available_bytes() -> int | None:
    """Return how much memory this process may still use, or None if the system does not say."""
    limits: list[int] = []
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) * 1024)
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            limits.append(int(limit) - int((group / "memory.current").read_text()))
    if not limits:
        with suppress(AttributeError, OSError, ValueError):
            limits.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(limits)) if limits else None


def require_memory(
    needed: int, *, n: int, d: int, common: bool, available: int | None = None
) -> None:
    """Refuse a problem that does not fit, stating the estimate and what would make it fit."""
    room = available_bytes() if available is None else available
    if room is None or needed <= room:
        return
    ways = []
    if not common:
        ways.append("one common public set (stores one matrix instead of one per node)")
    fewer = max(1, int(d * (room / needed) ** 0.5))
    ways.append(f"about {fewer} features instead of {d}, or {int(n * room / needed):,} nodes")
    raise FedRelaxError(
        f"memory: {n:,} nodes with {d} features need about {needed / 1e9:.2f} GB, but only "
        f"{room / 1e9:.2f} GB are available; what would make it fit: {'; '.join(ways)}"
    )
