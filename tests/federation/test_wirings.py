"""Rewiring in a federation: sites report numbers, and the hub decides whom they heed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedrelax import Graph
from fedrelax.errors import FedRelaxError
from fedrelax.federation.hub import Hub
from fedrelax.federation.letters import Envelope
from fedrelax.federation.settings import hub_of
from fedrelax.federation.writing import fitted_of
from fedrelax.selection.candidates import Candidate
from fedrelax.selection.search import choose
from fedrelax.solvers import FedRelax
from fedrelax.wiring import Discover, Rewire
from tests.federation.sites import (
    WithinProcess,
    hub_settings,
    make,
    networks,
    same_history,
    same_models,
)

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
EIGHT = tuple(f"site-{k}" for k in range(8))
REWIRE = Rewire(every=1, shares=(0.6, 0.4), after=(1, 1))
WIRED = FedRelax(rounds=8, tol=0.0, wiring=REWIRE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "solver"),
    [
        (("ridge",), WIRED),
        (("ridge", "ridge", "tree", "tree"), WIRED),
        (("tree",), replace(WIRED, objective="gtvmin")),
    ],
    ids=["models that settle", "models that start anew", "both ends"],
)
def test_rewiring_gives_what_one_process_gives(
    tmp_path: Path, models: tuple[str, ...], solver: FedRelax
) -> None:
    federation = make(tmp_path, EIGHT, models, complete=True)
    found = Hub(hub_settings(federation, method=solver), federation.transport()).run()
    result = replace(solver, alpha=0.5).solve(networks(federation, solver)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result)
    assert result.kept is not None
    assert abs(found.lane.edges - result.kept.adjacency).max() < 1e-9


def test_sites_find_those_like_them(tmp_path: Path) -> None:
    federation = make(tmp_path, EIGHT, ("ridge",), complete=True)
    found = Hub(hub_settings(federation, method=WIRED), federation.transport()).run()
    names = {"sites": list(EIGHT), "wiring": "rewire"}
    kept = fitted_of(found, hub_of(names, tmp_path, "hub.toml")).result_.kept
    assert {frozenset(group) for group in Graph(kept.adjacency, EIGHT).components()} == {
        frozenset(EIGHT[::2]),
        frozenset(EIGHT[1::2]),
    }


def test_alpha_is_chosen_with_the_wiring(tmp_path: Path) -> None:
    federation = make(tmp_path, EIGHT[:6], ("ridge", "ridge", "tree", "tree"), complete=True)
    given = hub_settings(federation, method=WIRED, alpha=(0.1, 1.0))
    found = Hub(given, federation.transport()).run()
    network, folds = networks(federation, WIRED)
    candidates = [Candidate(alpha, REWIRE) for alpha in (0.1, 1.0)]
    choice = choose(folds, WIRED, candidates, halving=False)
    result = choice.settings(WIRED).solve(network).with_alone(choice.alone)
    assert found.choice is not None
    assert (found.alpha, found.choice.rounds) == (choice.alpha, choice.rounds)
    same_history(found.outcome.history, result.history)
    same_models(federation, result)


@pytest.mark.parametrize("stop", [2, 6])
@pytest.mark.parametrize("answered", [False, True])
def test_a_hub_that_is_cut_off_while_it_rewires_goes_on(
    tmp_path: Path, stop: int, answered: bool
) -> None:
    class Cut(WithinProcess):
        def send(self, letters: Any, wait: float, late: Any = ()) -> Any:
            first: Envelope = next(iter(letters.values()))
            cut = first.kind == "relax" and first.head["round"] == stop and first.head["refit"]
            answers = {} if cut and not answered else super().send(letters, wait, late)
            if cut:
                raise KeyboardInterrupt
            return answers

    federation = make(tmp_path / "sites", EIGHT[:4], ("ridge", "tree"), complete=True)
    given = hub_settings(federation, method=WIRED)
    with pytest.raises(KeyboardInterrupt):
        Hub(given, Cut(federation.participants()), tmp_path / "hub").run()
    found = Hub(given, federation.transport(), tmp_path / "hub").run()
    result = replace(WIRED, alpha=0.5).solve(networks(federation, WIRED)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result)


def test_the_hub_cannot_give_a_site_other_neighbours_than_its_file(tmp_path: Path) -> None:
    class Adds(WithinProcess):
        def send(self, letters: Any, wait: float, late: Any = ()) -> Any:
            for name, letter in letters.items():
                if "heeded" in letter.head and name == "site-1":
                    letter.head["heeded"]["0"]["site-9"] = 1.0
            return super().send(letters, wait, late)

    federation = make(tmp_path, EIGHT[:4], ("ridge",), complete=True)
    hub = Hub(hub_settings(federation, method=WIRED), Adds(federation.participants()))
    found = hub.run()
    assert any("site 'site-1': the hub names neighbours that" in n for n in found.notes)


def test_a_wiring_that_needs_everybodys_predictions_says_so(tmp_path: Path) -> None:
    federation = make(tmp_path, EIGHT[:4], ("ridge",))
    with pytest.raises(FedRelaxError, match="wiring='discover' compares predictions of all sites"):
        Hub(hub_settings(federation, method=FedRelax(wiring=Discover())), federation.transport())
    with pytest.raises(FedRelaxError, match="did you mean 'rewire'"):
        hub_of({"sites": ["a", "b"], "wiring": "rewired"}, tmp_path, "hub.toml")
