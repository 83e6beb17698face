"""How fast does a served result answer, and does it stay up under bad requests?

    python -m benchmarks.serving

Fits two small results, serves each with ``fedrelax serve`` in its own process, and prints: whether the
answers equal those of ``fedrelax predict``, the times of 1,000 requests from 8 clients (one row each, over
persistent connections), the time of one request with 1,000 rows, the response time of ``/health``
meanwhile, and the answers to hostile requests.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CLIENTS, REQUESTS = 8, 1000
TOKEN = "a-token-of-the-benchmark"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
MODELS = {"20 linear models of 10 numbers": "linear", "20 trees of 10 numbers": "tree"}


def table() -> pd.DataFrame:
    """Return a table of 20 nodes with 50 rows each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 10)).round(4)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(10)])
    frame["y"] = (X @ rng.normal(size=10) + rng.normal(size=1000)).round(4)
    return frame.assign(node=np.repeat([f"node {k}" for k in range(20)], 50))


def fedrelax(*words: object) -> None:
    """Run a ``fedrelax`` command."""
    subprocess.run([sys.executable, "-m", "fedrelax", *map(str, words)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


@contextmanager
def served(result: Path) -> Iterator[int]:
    """Serve a result and yield its port."""
    words = ["serve", str(result), "--port", "0", "--token", TOKEN]
    with subprocess.Popen(
        [sys.executable, "-m", "fedrelax", *words], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            yield int(process.stderr.readline().split()[1].rstrip("/").rpartition(":")[2])
        finally:
            process.terminate()


class Client:
    """A client with one persistent connection."""

    def __init__(self, port: int) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def post(self, body: Any, **headers: str) -> tuple[int, Any]:
        """Return status and JSON of the answer to ``POST /predict``."""
        data = body if isinstance(body, bytes) else json.dumps(body)
        self._line.request("POST", "/predict", data, {**HEADERS, **headers})
        answer = self._line.getresponse()
        return answer.status, json.loads(answer.read())

    def health(self) -> int:
        """Return the status of ``GET /health``."""
        self._line.request("GET", "/health")
        answer = self._line.getresponse()
        answer.read()
        return answer.status


def many(port: int, rows: list[dict[str, Any]], expected: list[float]) -> None:
    """Print the times of many requests from several clients."""
    times: list[float] = []
    errors: list[Any] = []

    def work(first: int) -> None:
        client = Client(port)
        for k in range(first, REQUESTS, CLIENTS):
            begun = time.perf_counter()
            status, said = client.post({"node": rows[k]["node"], "rows": [rows[k]]})
            times.append(time.perf_counter() - begun)
            if status != 200 or abs(said["predictions"][0] - expected[k]) > 1e-9:
                errors.append((status, said))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(CLIENTS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    print(
        f"  {len(times)} requests from {CLIENTS} clients: {len(errors)} errors, {len(times) / seconds:.0f} "
        f"per second, p50 {p50:.1f} ms, p99 {p99:.1f} ms, slowest {1e3 * max(times):.1f} ms"
    )


def whole(
    port: int, frame: pd.DataFrame, rows: list[dict[str, Any]], expected: list[float]
) -> None:
    """Print the time of one large request, and of ``/health`` while it is answered."""
    asked: list[float] = []
    done = threading.Event()

    def watch() -> None:
        client = Client(port)
        while not done.is_set():
            begun = time.perf_counter()
            assert client.health() == 200
            asked.append(time.perf_counter() - begun)
            time.sleep(0.002)

    watching = threading.Thread(target=watch)
    watching.start()
    begun = time.perf_counter()
    _, said = Client(port).post({"nodes": frame["node"].tolist(), "rows": rows})
    seconds = time.perf_counter() - begun
    done.set()
    watching.join()
    equal = said["predictions"] == expected
    print(
        f"  {len(rows)} rows in one request: {1e3 * seconds:.0f} ms; equal to predict: {equal}; "
        f"health meanwhile: slowest {1e3 * max(asked):.1f} ms"
    )


HOSTILE: dict[str, tuple[bytes, dict[str, str]]] = {
    "no token": (b"{}", {"Authorization": ""}),
    "wrong token": (b"{}", {"Authorization": "Bearer x"}),
    "foreign Host": (b"{}", {"Host": "evil.example"}),
    "a form": (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}),
    "2 MB": (b" " * 2_000_000, {}),
    "100,000 brackets": (b"[" * 100_000, {}),
    "NaN": (b'{"node": "node 1", "rows": [{"x0": NaN}]}', {}),
    "1e999": (b'{"node": "node 1", "rows": [{"x0": 1e999}]}', {}),
    "a list as a value": (b'{"node": "node 1", "rows": [{"x0": [1]}]}', {}),
    "unknown node": (b'{"node": "node 99", "rows": [{}]}', {}),
    "missing column": (b'{"node": "node 1", "rows": [{"x0": 1}]}', {}),
}


def main() -> None:
    """Print a paragraph for every result."""
    with tempfile.TemporaryDirectory() as home:
        place, frame = Path(home), table()
        frame.to_csv(place / "rows.csv", index=False)
        rows = json.loads(frame.to_json(orient="records", double_precision=15))
        for title, model in MODELS.items():
            print(f"{title}:", flush=True)
            result, out = place / model, place / f"{model}.csv"
            fedrelax("fit", place / "rows.csv", "--node", "node", "--target", "y", "--model", model,
                     "--alpha", "0.1", "--rounds", "1", "--out", result)  # fmt: skip
            fedrelax("predict", result, place / "rows.csv", "--out", out)
            expected = pd.read_csv(out, dtype={"prediction": str})["prediction"].map(float).tolist()
            with served(result) as port:
                many(port, rows, expected)
                whole(port, frame, rows, expected)
                if model == "linear":
                    for name, (body, headers) in HOSTILE.items():
                        status, said = Client(port).post(body, **headers)
                        print(f"  {name}: {status} {said['error']}")


if __name__ == "__main__":
    main()
