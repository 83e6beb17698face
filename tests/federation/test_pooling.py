"""Sites that leave everything open learn by partial pooling: all know and choose the same."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrelax import FedRelaxClassifier, FedRelaxRegressor, Graph
from fedrelax.federation.boosted import BOOSTING_ROUNDS
from fedrelax.federation.boxes import LENGTH
from fedrelax.federation.hub import Federated, Hub
from fedrelax.federation.letters import Envelope
from fedrelax.federation.pooled import PooledSite
from fedrelax.federation.settings import hub_of
from fedrelax.federation.site_run import SiteRun
from fedrelax.federation.table import parts_of, read_site_table
from fedrelax.files import from_npy
from fedrelax.pooling.search import ROUNDS, PoolingSearch
from fedrelax.selection.budget import Budget
from fedrelax.storage import load_result
from tests.federation.sites import Federation, WithinProcess, make

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
FOUR = ("ash", "birch", "cedar", "elm")
TEST_ROWS = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 3)), columns=["x1", "x2", "x3"])


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    more = {"public": "blend", "public_rows": None, "complete": True}
    return make(tmp_path / "sites", names=FOUR, models=("ridge",), rows=30, **more)


def run(federation: Federation, transport: Any = None, **more: Any) -> Federated:
    values = {"sites": list(federation.names), "wait": 30.0, "join": 30.0, **more}
    settings = hub_of(values, federation.home, "hub.toml")
    return Hub(settings, transport or federation.transport()).run()


def predictions(federation: Federation) -> np.ndarray[Any, Any]:
    """What every site's saved model says of the same rows."""
    saved = [load_result(federation.site(name).state / "model") for name in federation.names]
    return np.stack([np.asarray(one.answers(TEST_ROWS))[:, 0] for one in saved])


def fitted(federation: Federation, Estimator: Any = FedRelaxRegressor, **more: Any) -> Any:
    """``fit`` on the training rows of all sites."""
    parts = []
    for name in federation.names:
        table = read_site_table(federation.site(name))
        train = parts_of(federation.site(name), len(table))[0]
        parts.append(table.features.iloc[train].assign(y=table.y[train], site=name))
    every = pd.concat(parts)
    model = Estimator(**({"wiring": "fixed", "minutes": 0} | more))
    return model.fit(every.drop(columns=["y", "site"]), every["y"], nodes=every["site"])


def numbers_in(content: bytes) -> int:
    """How many numbers the tables of a box hold, without those of their lines."""
    count = 0
    while content:
        end = LENGTH + int.from_bytes(content[:LENGTH], "big")
        if end > LENGTH:
            count += from_npy(content[LENGTH:end], "a table")[:, 1:].size
        content = content[end:]
    return count


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many numbers one site says to another, round by round."""
    counts, close = list[int](), SiteRun.close

    def counted(sites: SiteRun, contents: Any, round: int) -> dict[str, bytes]:
        if sites.site.name == "ash" and round > 0:
            counts.append(numbers_in(contents["elm"]))
        return close(sites, contents, round)

    monkeypatch.setattr(SiteRun, "close", counted)
    return counts


@pytest.mark.parametrize("order", [FOUR, FOUR[::-1]], ids=["by name", "reversed"])
def test_the_sites_get_what_fit_gives_on_the_same_rows(
    federation: Federation, numbers: list[int], order: Collection[str]
) -> None:
    found = run(federation, sites=list(order))
    model = fitted(federation)
    expected = [model.predict(TEST_ROWS, nodes=[name] * 50) for name in FOUR]
    np.testing.assert_allclose(predictions(federation), expected, atol=1e-8)
    assert found.outcome.n_rounds == ROUNDS and found.choice is None
    assert found.alpha == pytest.approx(model.alpha_, rel=1e-6)
    assert model.choice_.reason.startswith(found.outcome.reason)
    assert len(numbers) == ROUNDS and sum(numbers) == model.plan_.pooled_numbers


def test_so_do_sites_with_classes(tmp_path: Path) -> None:
    more = {"public": "blend", "public_rows": None, "complete": True}
    federation = make(
        tmp_path, names=FOUR, models=("logistic",), rows=30, task="classification", **more
    )
    run(federation)
    model = fitted(federation, FedRelaxClassifier)
    expected = [model.predict_proba(TEST_ROWS, nodes=[name] * 50)[:, 0] for name in FOUR]
    np.testing.assert_allclose(predictions(federation), expected, atol=1e-8)


def test_so_do_sites_on_a_graph_whose_edges_weigh_differently(tmp_path: Path) -> None:
    names = tuple("abcdef")
    more = {"public": "blend", "public_rows": None, "complete": True}
    federation = make(tmp_path, names=names, models=("ridge",), rows=12, **more)
    weights = {
        frozenset((a, b)): 1.0 / (1 + abs(i - j)) ** 3
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j
    }
    for name in names:
        near = {other: weights[frozenset((name, other))] for other in names if other != name}
        federation.change(name, neighbours=near)
    run(federation)
    graph = Graph.from_edges([(*sorted(pair), weight) for pair, weight in weights.items()])
    model = fitted(federation, graph=graph)
    expected = [model.predict(TEST_ROWS, nodes=[name] * 50) for name in names]
    np.testing.assert_allclose(predictions(federation), expected, atol=1e-8)


def bent(home: Path, classes: int) -> Federation:
    """Sites with rows enough to boost differences, and a step in common that no line can follow."""
    more = {"public": "blend", "public_rows": None, "complete": True}
    models, task = (("logistic",), "classification") if classes else (("ridge",), "regression")
    federation = make(home, names=FOUR, models=("ridge",), rows=60, **more)
    for name in FOUR:
        path = federation.home / name / "rows.csv"
        frame = pd.read_csv(path)
        y = frame["y"] + 4 * np.sign(frame["x1"]) * np.sign(frame["x2"])
        if classes:
            y = pd.cut(y, [-np.inf, *(0.0, 3.0)[: classes - 1], np.inf], labels=False)
            y = y.map(lambda code: "abc"[code])
        frame.assign(y=y).to_csv(path, index=False)
        federation.change(name, model=models[0], task=task)
    return federation


class Forgetful(WithinProcess):
    """Sites that forget, before some of the rounds, all but what they saved."""

    def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
        if any(one.head.get("round") in (4, 8, ROUNDS + 2) for one in letters.values()):
            for one in self.sites.values():
                one._pooled = None
        return super().send(letters, wait, late)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_sites_boost_differences_as_fit_does_also_if_they_begin_again(
    tmp_path: Path, classes: int, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = bent(tmp_path, classes)
    outcome = run(federation, Forgetful(federation.participants()), folds=3)
    Estimator = FedRelaxClassifier if classes else FedRelaxRegressor
    monkeypatch.setattr(Budget, "spent", 0.0)  # a busy machine tries as much as any other
    model = fitted(federation, Estimator, minutes=None, folds=3)
    assert "boosted differences" in model.choice_.reason
    answer = model.predict_proba if classes else model.predict
    expected = [answer(TEST_ROWS, nodes=[name] * 50) for name in FOUR]
    expected = [each[:, 0] if classes else each for each in expected]
    np.testing.assert_allclose(predictions(federation), expected, atol=1e-6)
    assert outcome.outcome.n_rounds == ROUNDS + BOOSTING_ROUNDS == 12
    assert outcome.alpha == pytest.approx(model.alpha_, rel=1e-6)
    assert model.choice_.reason.startswith(outcome.outcome.reason)
    assert sum(numbers) == model.plan_.pooled_numbers


@pytest.mark.parametrize("answered", [False, True])
def test_a_hub_that_is_started_again_goes_on(
    federation: Federation, tmp_path: Path, answered: bool
) -> None:
    """Also where the sites had answered the round in which it was killed."""

    class Cut(WithinProcess):
        def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
            cut = any(one.head.get("round") == 4 for one in letters.values())
            answers = {} if cut and not answered else super().send(letters, wait, late)
            if cut:
                raise KeyboardInterrupt
            return answers

    sites = federation.participants()
    settings = hub_of({"sites": list(FOUR)}, federation.home, "hub.toml")
    whole = run(federation)
    expected = predictions(federation)
    with pytest.raises(KeyboardInterrupt):
        Hub(settings, Cut(sites), tmp_path / "hub").run()
    transport = WithinProcess(sites)
    found = Hub(settings, transport, tmp_path / "hub").run()
    assert transport.letters == 2 * 4 * (1 + ROUNDS - 3 + 1)  # hello, from round 4 on, finish
    np.testing.assert_array_equal(predictions(federation), expected)
    assert found.outcome.reason == whole.outcome.reason
    assert found.alpha == pytest.approx(whole.alpha)


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
    # The scale of the target is taken from what sites say of it before the first round.
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
    more = {"public": "blend", "public_rows": 1, "complete": True}
    federation = make(tmp_path, names=FOUR[:3], models=("ridge",), **more)
    assert run(federation, rounds=8, folds=2).choice is not None
