"""Federations whose sites are processes of Flower on this machine; every process is ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.federation.files import make_certificates, make_site_keys, write_federation
from fedrelax.federation.settings import read_hub
from fedrelax.federation.state import read_status
from fedrelax.federation.trial import Deployment, follow
from fedrelax.files import dump_toml
from fedrelax.selection.candidates import Candidate, alphas_for
from fedrelax.selection.search import choose
from fedrelax.solvers import FedRelax
from fedrelax.storage import read_result
from tests.federation.sites import Federation, make, networks, same_models

TWO = FedRelax(rounds=2, tol=0.0)
LIMIT = 400.0
SIMULATED = (
    "--federation-config",
    "num-supernodes=6 client-resources-num-cpus=1 init-args-num-cpus=2",
)


def written(home: Path, names: tuple[str, ...], hub: dict[str, Any], **more: Any) -> Federation:
    """Write app, certificates, keys and sites."""
    models = dict.fromkeys(names, "ridge")
    write_federation(home, names, site={"target": "y"}, models=models, hub=hub)
    make_certificates(home / "certificates", ["127.0.0.1", "localhost"])
    federation = make(home / "sites", names, **more)
    for name in names:
        make_site_keys(home / "sites" / name)
    return federation


def settings(federation: Federation, **values: Any) -> None:
    """Give the hub other settings, and the sites the same openness."""
    home = federation.home.parent
    said = {"sites": list(federation.names), "folder": "state", "out": "result", "wait": 200.0}
    (home / "hub" / "hub.toml").write_text(dump_toml({**said, **values}))
    for name in federation.names:
        federation.change(name, open=values.get("open", False))


def run(machines: Deployment, *more: str) -> None:
    folder, since = read_hub(machines.home / "hub" / "hub.toml").folder, time.time()
    follow(machines, machines.submit(*more), folder, print, since, LIMIT)


def check_equal(federation: Federation, alpha: Any, solver: FedRelax = TWO) -> None:
    """Compare what hub and sites have saved with the same network within this process."""
    network, folds = networks(federation, solver)
    if isinstance(alpha, float):
        result = FedRelax(alpha=alpha, rounds=solver.rounds, tol=solver.tol).solve(network)
    else:
        candidates = [Candidate(strength) for strength in alphas_for(network.graph, alpha)]
        choice = choose(folds, solver, candidates, halving=False)
        result = choice.settings(solver).solve(network).with_alone(choice.alone)
    saved = read_result(federation.home.parent / "hub" / "result")
    for name in ("local_loss", "gtv", "objective", "change"):
        np.testing.assert_allclose(saved.history[name], result.history[name], rtol=0, atol=1e-9)
    same_models(federation, result)


def reach(home: Path, round: int, machines: Deployment) -> None:
    """Wait until the hub has finished a round."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        machines.check_alive()
        said = read_status(home / "hub" / "state")
        if said is not None and said.round >= round:
            return
        time.sleep(0.2)
    raise AssertionError(f"round {round} was not reached: {machines.tail('hub', 20)}")
