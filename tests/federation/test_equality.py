"""A federation gives what the same network gives within one process: models and history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedrelax.federation.hub import Hub
from fedrelax.federation.settings import hub_of
from fedrelax.selection.candidates import Candidate, alphas_for
from fedrelax.selection.search import choose
from fedrelax.solvers import FedRelax
from tests.federation.sites import (
    CLASSIFIERS,
    MODELS,
    SIX,
    hub_settings,
    make,
    networks,
    same_history,
    same_models,
)

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_fixed_alpha(tmp_path: Path, task: str) -> None:
    models = MODELS if task == "regression" else CLASSIFIERS
    federation = make(tmp_path, models=models, task=task)
    found = Hub(hub_settings(federation), federation.transport()).run()
    network, _ = networks(federation, SIX)
    result = replace(SIX, alpha=0.5).solve(network)
    same_history(found.outcome.history, result.history)
    same_models(federation, result)
    for edge, discrepancy in result.discrepancies.items():
        reported = found.lane.recorded[3][str(edge[0])].discrepancies[edge[1]]
        assert reported == pytest.approx(discrepancy, abs=1e-9)


CHOSEN = [
    (0.0, 0.3, 3.0),
    (0.0, 0.3),
    (30.0, 100.0),  # so strong that sites stay alone
]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", CHOSEN)
def test_alpha_that_is_chosen(tmp_path: Path, alpha: Any) -> None:
    federation = make(tmp_path)
    transport = federation.transport()
    found = Hub(hub_settings(federation, alpha=alpha), transport).run()
    network, folds = networks(federation, SIX)
    candidates = [Candidate(alpha) for alpha in alphas_for(network.graph, alpha)]
    choice = choose(folds, SIX, candidates, halving=False)
    result = choice.settings(SIX).solve(network).with_alone(choice.alone)
    assert found.choice is not None
    if alpha == (30.0, 100.0):
        assert found.alpha == 0.0
    assert (found.alpha, found.choice.rounds, found.alone) == (
        choice.alpha,
        choice.rounds,
        choice.alone,
    )
    assert abs(found.choice.losses - choice.losses).max() < 1e-9
    same_history(found.outcome.history, result.history)
    same_models(federation, result)
    one = federation.transport()
    Hub(hub_settings(federation), one).run()
    assert transport.letters <= 1.2 * one.letters


SETTINGS: list[dict[str, Any]] = [
    {"objective": "gtvmin"},
    {"damping": 0.5},
    {"weighting": "rows", "first_exchange": "zeros"},
    {"level": 0.3},
    {"update": "difference"},
]


def test_classes_by_their_differences(tmp_path: Path) -> None:
    names, models = ("ash", "birch", "cedar"), ("logistic", "tree", "boosting")
    federation = make(tmp_path, names=names, models=models, task="classification")
    settings = FedRelax(rounds=3, tol=0.0, update="difference")
    found = Hub(hub_settings(federation, method=settings), federation.transport()).run()
    result = replace(settings, alpha=0.5).solve(networks(federation, settings)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result)


def test_a_hub_that_leaves_alpha_open_means_differences(tmp_path: Path) -> None:
    def update(**values: Any) -> str:
        return hub_of({"sites": ["ash", "birch"], **values}, tmp_path, "hub.toml").method.update

    assert update() == update(alpha="auto") == update(alpha=[0.0, 0.1]) == "difference"
    assert update(alpha=0.1) == update(update="refit") == "refit"


@pytest.mark.parametrize("given", SETTINGS, ids=str)
def test_other_settings(tmp_path: Path, given: dict[str, Any]) -> None:
    federation = make(tmp_path, names=("ash", "birch", "cedar"))
    settings = FedRelax(rounds=3, tol=0.0, **given)
    found = Hub(hub_settings(federation, method=settings), federation.transport()).run()
    result = replace(settings, alpha=0.5).solve(networks(federation, settings)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result)
