"""Sites that leave everything open learn by partial pooling: all know and choose the same."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrelax.federation.hub import Federated, Hub
from fedrelax.federation.letters import Envelope
from fedrelax.federation.pooled import PooledSite
from fedrelax.federation.settings import hub_of
from fedrelax.federation.table import model_of, parts_of, read_site_table
from fedrelax.selection.pooling import ROUNDS, Design, PoolingSearch
from fedrelax.storage import load_result
from tests.federation.sites import PLAIN, Federation, WithinProcess, make, networks

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
FOUR = ("ash", "birch", "cedar", "elm")


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    more = {"public": "blend", "public_rows": 40, "open_": True, "complete": True}
    return make(tmp_path / "sites", names=FOUR, models=("ridge",), rows=30, **more)


def run(federation: Federation, transport: Any = None, **more: Any) -> Federated:
    values = {"sites": list(federation.names), "open": True, "wait": 30.0, "join": 30.0, **more}
    settings = hub_of(values, federation.home, "hub.toml")
    return Hub(settings, transport or federation.transport()).run()


def predictions(federation: Federation) -> np.ndarray[Any, Any]:
    """What every site's saved model says of the same rows."""
    rows = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 3)), columns=["x1", "x2", "x3"])
    saved = [load_result(federation.site(name).state / "model") for name in federation.names]
    return np.stack([np.asarray(one.answers(rows))[:, 0] for one in saved])


def test_the_sites_get_what_one_process_computes_from_the_same_exchange(
    federation: Federation,
) -> None:
    found = run(federation)
    network, _ = networks(federation, replace(found_method(federation), random_state=0))
    public, rows = network.public.common, network.own_rows
    owner = np.repeat(np.arange(len(FOUR)), 40)
    assert public is not None
    first = np.array([_first_answers(federation, name, public) for name in FOUR])
    design = Design.of(public, owner, rows.counts, float(first.mean()), float(first.std()))
    node = np.repeat(np.arange(len(FOUR)), rows.counts)
    every = design.moments(rows.X, rows.y, node, len(FOUR))
    search = PoolingSearch(design, ROUNDS)
    for _ in range(ROUNDS):
        search.hear(search.messages(search.replies(every, np.arange(len(FOUR)))))
    replies = search.replies(every, np.arange(len(FOUR)))
    models = search.average({k: said.models for k, said in replies.items()})
    X = np.random.default_rng(1).normal(size=(50, 3))
    expected = design.scale.columns(X) @ models.T
    np.testing.assert_allclose(predictions(federation), expected.T, atol=1e-8)
    assert found.outcome.n_rounds == ROUNDS and found.choice is None
    assert found.alpha == pytest.approx(search.alpha, rel=1e-6)
    assert found.outcome.reason == search.words


def found_method(federation: Federation) -> Any:
    return hub_of({"sites": list(federation.names)}, federation.home, "hub.toml").method


def _first_answers(federation: Federation, name: str, public: Any) -> Any:
    """What a site's model trained alone says of the public rows."""
    site = federation.site(name)
    table = read_site_table(site)
    train = parts_of(site, len(table))[0]
    X = PLAIN.of_node(name, table.coded(PLAIN.schema))
    model = model_of(site, X[train], PLAIN)
    return model.fit(X[train], table.y[train]).predict(public)


class Withholding(WithinProcess):
    """Carries letters without what other sites said in the rounds, or without some sites' letters."""

    def __init__(self, sites: Any, lost: dict[str, Collection[int]] | None = None) -> None:
        super().__init__(sites)
        self.lost = lost

    def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
        if self.lost is None:
            letters = {
                name: Envelope(one.kind, one.head) if _in_rounds(one) else one
                for name, one in letters.items()
            }
        else:
            letters = {
                name: one
                for name, one in letters.items()
                if not (one.kind == "relax" and one.head["round"] in self.lost.get(name, ()))
            }
        return super().send(letters, wait, late)


def _in_rounds(letter: Envelope) -> bool:
    return letter.kind == "relax" and letter.head["round"] > 0


def test_without_messages_nothing_is_learned_from_others(federation: Federation) -> None:
    """Another target at one site changes the others' models, unless the rounds carry nothing."""

    def change() -> None:
        path = federation.home / "birch" / "rows.csv"
        frame = pd.read_csv(path)
        frame.assign(y=frame["y"] + 2 * frame["x1"] ** 2).to_csv(path, index=False)

    changes = {}
    for how in ("carried", "withheld"):
        transports = [
            federation.transport() if how == "carried" else Withholding(federation.participants())
            for _ in range(2)
        ]
        run(federation, transports[0])
        before = predictions(federation)[0]
        original = (federation.home / "birch" / "rows.csv").read_text()
        change()
        run(federation, transports[1])
        changes[how] = np.abs(predictions(federation)[0] - before).max()
        (federation.home / "birch" / "rows.csv").write_text(original)
    # The scale of the target is taken from the answers before the first round, which are carried.
    assert changes["withheld"] < 0.02 * changes["carried"] and changes["carried"] > 0.1


def test_a_site_that_misses_a_round_keeps_its_model_and_the_others_go_on(
    federation: Federation,
) -> None:
    found = run(federation, Withholding(federation.participants(), {"birch": (4,)}))
    assert found.missed["birch"] == list(range(4, ROUNDS + 1))
    assert any("'birch'" in note and "it missed a round" in note for note in found.notes)
    assert np.isfinite(predictions(federation)).all()
    assert set(found.reports) == set(FOUR)


@pytest.mark.parametrize("factor", [1e30, 1e200, -1e3])
def test_absurd_numbers_of_one_site_leave_the_others_with_finite_models(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    messages = PoolingSearch.messages

    boxes = PooledSite.boxes

    def lying(self: PooledSite, round: int) -> Any:
        if self.sites.site.name == "birch":
            with monkeypatch.context() as patched:
                patched.setattr(
                    PoolingSearch,
                    "messages",
                    lambda search, replies: {
                        k: (factor * a, factor * numbers)
                        for k, (a, numbers) in messages(search, replies).items()
                    },
                )
                return boxes(self, round)
        return boxes(self, round)

    monkeypatch.setattr(PooledSite, "boxes", lying)
    run(federation)
    answers = predictions(federation)
    assert np.isfinite(answers).all()
    assert np.abs(answers[[0, 2, 3]]).max() < 100


@pytest.mark.parametrize(
    "more", [{"alpha": [0.0, 0.1]}, {"rounds": 3}, {"combine": "median"}], ids=str
)
def test_who_asks_for_anything_else_gets_that(federation: Federation, more: Any) -> None:
    found = run(federation, **{"rounds": 3, **more})
    assert found.choice is not None


def test_another_model_at_one_site_means_the_usual_rounds(federation: Federation) -> None:
    federation.change("birch", model="tree")
    assert run(federation, rounds=8, folds=2).choice is not None


def test_fewer_public_rows_than_columns_mean_the_usual_rounds(tmp_path: Path) -> None:
    more = {"public": "blend", "public_rows": 1, "open_": True, "complete": True}
    federation = make(tmp_path, names=FOUR[:3], models=("ridge",), **more)
    assert run(federation, rounds=8, folds=2).choice is not None
