"""Over Flower: hub and sites as processes with TLS and node authentication."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrelax.federation.files import make_certificates, make_site_keys
from fedrelax.federation.state import HUB, Folder
from fedrelax.solvers import FedRelax
from fedrelax.storage import read_result
from tests.federation.deployed import Deployment, check_equal, reach, settings, written
from tests.federation.sites import NAMES, Federation

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(find_spec("flwr") is None, reason="pip install 'fedrelax[flower]'"),
]


@dataclass
class Deployed:
    federation: Federation
    machines: Deployment


@pytest.fixture(
    scope="module",
    params=[NAMES[:3], pytest.param(NAMES, marks=pytest.mark.slow)],
    ids=["three sites", "six sites"],
)
def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """Every message to a site starts a process, so the slow cases are those with many sites."""
    home = tmp_path_factory.mktemp("deployed") / "home"
    federation = written(home, request.param, {})
    with Deployment(home) as machines:
        machines.start_hub()
        for name in request.param:
            machines.register(name)
            machines.start_site(name)
        yield Deployed(federation, machines)
    assert machines.running == {}


@pytest.mark.parametrize("alpha", [0.5, pytest.param("auto", marks=pytest.mark.slow)])
def test_sites_over_tls_give_what_one_process_gives(deployed: Deployed, alpha: Any) -> None:
    rounds = 2 if alpha == 0.5 else 1
    settings(deployed.federation, alpha=alpha, rounds=rounds, tol=0.0, update="refit")
    deployed.machines.run()
    check_equal(deployed.federation, alpha, FedRelax(rounds=rounds, tol=0.0))
    kept = b"".join(
        path.read_bytes()
        for part in ("flower/hub", "flower/client", "hub", "app")
        for path in (deployed.machines.home / part).rglob("*")
        if path.is_file()
    )
    secrets = []
    for name, participant in deployed.federation.participants().items():
        secrets.append(pd.read_csv(deployed.federation.home / name / "rows.csv").to_numpy().ravel())
        for round in participant.folder.rounds():
            secrets += [s.shared[name].ravel() for s in participant.folder.load(round).values()]
    assert in_the_clear(np.concatenate(secrets), kept) == 0
    assert in_the_clear(np.concatenate(secrets), kept + secrets[0][3].tobytes()) == 1
    assert (
        in_the_clear(np.concatenate(secrets), kept + b" " + repr(float(secrets[0][3])).encode())
        == 1
    )


def in_the_clear(secrets: np.ndarray, kept: bytes) -> int:
    """Return how many of the numbers stand somewhere in the bytes, in binary or as text."""
    found = 0
    for start in range(8):
        whole = (len(kept) - start) // 8 * 8
        words = np.frombuffer(kept[start : start + whole], dtype="<u8")
        found += int(np.isin(secrets.astype("<f8").view("<u8"), words).sum())
    texts = set(re.findall(rb"-?\d+\.\d+(?:e-?\d+)?", kept))
    return found + sum(repr(float(value)).encode() in texts for value in secrets)


def test_strangers_and_sites_without_the_authority_are_refused(
    deployed: Deployed, tmp_path: Path
) -> None:
    machines, folder = deployed.machines, deployed.federation.home / "ash"
    make_site_keys(tmp_path / "stranger")
    make_certificates(tmp_path / "other", ["127.0.0.1"])
    before = len(machines.flwr("supernode", "list", "hub")["nodes"])
    machines.running["ash's own"] = machines.running.pop("ash")
    try:
        machines.start_site("ash", key=tmp_path / "stranger" / "auth.key")
        assert "SuperNode ID" not in said_within(machines, 8.0)
        machines.kill("ash")
        machines.start_site("ash", key=folder / "auth.key", ca=tmp_path / "other" / "ca.crt")
        text = said_within(machines, 8.0)
        machines.kill("ash")
    finally:
        machines.running["ash"] = machines.running.pop("ash's own")
    assert "SuperNode ID" not in text
    assert len(machines.flwr("supernode", "list", "hub")["nodes"]) == before


def said_within(machines: Deployment, seconds: float) -> str:
    """Return what the site's process writes within some seconds, after what it had written."""
    log = machines.home / "flower" / "ash" / "log.txt"
    before = len(log.read_bytes())
    time.sleep(seconds)
    return log.read_bytes()[before:].decode(errors="replace")


@pytest.mark.slow
def test_a_site_and_the_hub_are_killed_and_come_back(tmp_path: Path) -> None:
    home, names = tmp_path / "home", ("ash", "birch", "cedar")
    federation = written(home, names, {}, models=("ridge", "tree"))
    settings(federation, alpha=0.5, rounds=5, tol=0.0, wait=60.0)

    with Deployment(home) as machines:
        machines.start_hub()
        for name in names:
            machines.register(name)
            machines.start_site(name)
        machines.submit()
        reach(0, machines)
        machines.kill("birch")
        reach(2, machines)
        machines.kill("hub")  # with the hub's app, as a power cut would
        kept = Folder(home / "hub" / "state").read(HUB)
        machines.start_site("birch")
        machines.start_hub()
        machines.run()
    saved = read_result(home / "hub" / "result")
    missed = saved.metrics["federation"]["missed"]
    assert set(missed) == {"birch"} and set(missed["birch"]) & {1, 2} and 5 not in missed["birch"]
    assert saved.nodes.set_index("node")["missed"]["birch"]
    assert "rounds missed" in (home / "hub" / "result" / "report.html").read_text()
    assert saved.history["round"].tolist() == [0, 1, 2, 3, 4, 5]
    runs = {p.folder.run().run for p in federation.participants().values()}
    assert len(kept["reports"]) >= 3 and runs == {kept["run"]}
    assert (federation.site("birch").state / "model" / "result.json").is_file()
