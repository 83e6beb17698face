"""What we start on Dask and Ray, we end: after errors, after Ctrl-C. Each test has its own cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.svm import SVR

from fedrelax import FedRelaxRegressor
from fedrelax.errors import NodeFitError
from fedrelax.runtime.clusters import ClusterError
from fedrelax.runtime.workers import using_backend

pytestmark = pytest.mark.cluster
psutil = pytest.importorskip("psutil", reason="needs distributed, which brings psutil")
PACKAGES = {"dask": "distributed", "ray": "ray"}


class Fails(RegressorMixin, BaseEstimator):
    """A model that cannot be fitted."""

    def fit(self, X, y, sample_weight=None):
        raise ZeroDivisionError("nothing to divide")

    def predict(self, X):
        return np.zeros(len(X))


def fit(model: BaseEstimator, backend: str | None, address: str | None = None) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    made = FedRelaxRegressor(model, alpha=0.3, rounds=1, backend=backend, address=address, n_jobs=1)
    made.fit(X, X[:, 0], nodes=np.repeat(["a", "b"], 20))


def started_by_us() -> set[int]:
    """Return the processes below this one, without Python's own bookkeeper, which stays to the end."""
    found = psutil.Process().children(recursive=True)
    return {child.pid for child in found if _works(child)}


def _works(process: psutil.Process) -> bool:
    try:
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and "resource_tracker" not in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_cluster_of_ours_is_ended_after_an_error(name):
    pytest.importorskip(PACKAGES[name])
    before = started_by_us()
    with pytest.raises(NodeFitError, match="node 'a': fit of Fails failed"):
        fit(Fails(), name)
    end = time.monotonic() + 20
    while started_by_us() - before and time.monotonic() < end:
        time.sleep(0.2)
    assert not started_by_us() - before


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_worker_that_ends_is_told_in_one_sentence(name):
    pytest.importorskip(PACKAGES[name])
    with pytest.raises(ClusterError, match=f"the {name} cluster lost some of the nodes"):
        fit(Deadly(), name)


def test_a_cluster_at_an_address_is_joined_and_left_as_it_was():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        fit(SVR(), "dask", cluster.scheduler_address)
        assert len(cluster.workers) == 1 and cluster.status.name == "running"


@pytest.mark.parametrize(("name", "seconds"), [("dask", 60), ("ray", 90)])
def test_something_else_at_the_address_is_refused_in_time(name, seconds):
    pytest.importorskip(PACKAGES[name])
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        begun = time.monotonic()
        with (
            pytest.raises(ClusterError, match=f"(?i)no {name} .*(answered|joined)"),
            using_backend(name, f"127.0.0.1:{server.server_port}"),
        ):
            fit(SVR(), None)
        server.shutdown()
    assert time.monotonic() - begun < seconds


class Deadly(Fails):
    """A model that takes its worker with it."""

    def fit(self, X, y, sample_weight=None):
        os.kill(os.getpid(), signal.SIGKILL)


COMMAND = """
import sys, numpy as np, pandas as pd
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
table = pd.DataFrame(X, columns=list("abc")).assign(town=np.repeat(list("pqrs"), 100), y=X[:, 0])
table.to_csv(sys.argv[1], index=False)
"""


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_ctrl_c_ends_the_command_and_its_cluster(name, tmp_path: Path):
    pytest.importorskip(PACKAGES[name])
    table = tmp_path / "towns.csv"
    subprocess.run([sys.executable, "-c", COMMAND, str(table)], check=True)
    words = f"--node town --target y --model svm --alpha 0.3 --rounds 100000 --backend {name}"
    program = [sys.executable, "-m", "fedrelax", "fit", str(table), *words.split()]
    run = subprocess.Popen(
        [*program, "--out", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    watched = psutil.Process(run.pid)
    while len(watched.children(recursive=True)) < 1:
        time.sleep(0.2)
    time.sleep(5)
    family = watched.children(recursive=True)
    try:
        for _ in range(4):  # a cluster that is just starting does not hear the first ones
            for _ in range(2):
                os.killpg(run.pid, signal.SIGINT)
                time.sleep(1)
            try:
                run.communicate(timeout=20)
                break
            except subprocess.TimeoutExpired:
                continue
        assert run.returncode in (0, 130)  # the first keeps the result, the second stops at once
        _, alive = psutil.wait_procs(family, timeout=20)
        assert alive == []
    finally:
        for process in [*family, watched]:
            if process.is_running():
                process.kill()
