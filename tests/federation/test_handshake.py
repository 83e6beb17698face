"""Before a run all sites must agree; a site that does not fit is refused with what does not fit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.federation.hub import Hub
from fedrelax.federation.participant import Participant
from fedrelax.federation.settings import read_site
from fedrelax.solvers import FedRelax
from tests.federation.sites import Federation, WithinProcess, hub_settings, make

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
THREE = ("ash", "birch", "cedar")


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make(tmp_path, names=THREE, models=("ridge",))


def rename(federation: Federation, name: str, **columns: str) -> None:
    path = federation.home / name / "rows.csv"
    pd.read_csv(path).rename(columns=columns).to_csv(path, index=False)


def refused(federation: Federation, text: str, **more: object) -> None:
    with pytest.raises(FedRelaxError, match=text):
        Hub(hub_settings(federation, join=0.1, **more), federation.transport()).run()


def test_a_column_that_a_site_has_not(federation: Federation) -> None:
    rename(federation, "birch", x2="wind")
    refused(federation, "site 'birch' has no column 'x2', which site 'ash' has")


def test_columns_in_another_order_are_the_same(federation: Federation) -> None:
    path = federation.home / "birch" / "rows.csv"
    found = Hub(hub_settings(federation), federation.transport()).run()
    pd.read_csv(path)[["y", "x3", "x1", "x2"]].to_csv(path, index=False)
    again = Hub(hub_settings(federation), federation.transport()).run()
    assert abs(found.outcome.history["gtv"] - again.outcome.history["gtv"]).max() < 1e-9


def test_text_in_a_column_of_numbers(federation: Federation) -> None:
    path = federation.home / "birch" / "rows.csv"
    frame = pd.read_csv(path)
    frame["x1"] = "high"
    frame.to_csv(path, index=False)
    refused(federation, "site 'birch': column 'x1' holds categories, but at site 'ash' numbers")


def test_another_task(federation: Federation) -> None:
    federation.change("cedar", task="classification", model="tree")
    path = federation.home / "cedar" / "rows.csv"
    frame = pd.read_csv(path)
    frame.assign(y=frame["y"].round()).to_csv(path, index=False)
    refused(federation, "site 'cedar' uses column 'y' for classification")


def test_weights_that_differ(federation: Federation) -> None:
    federation.change("ash", neighbours={"birch": 2.0, "cedar": 1.0})
    refused(federation, "'ash' hears 'birch' with weight 2, but 'birch' gives 1")


def test_an_edge_that_one_end_does_not_know(federation: Federation) -> None:
    federation.change("birch", neighbours={"cedar": 1.0})
    refused(federation, "'ash' hears 'birch' with weight 1, but 'birch' does not name it")


def test_a_name_that_is_not_known_and_a_second_claim_are_refused(federation: Federation) -> None:
    stranger = make(federation.home / "more", names=("elm", "fir", "oak"), models=("ridge",))
    twin = make(federation.home / "twin", names=THREE, models=("ridge",))
    sites = federation.participants()
    sites["elm"] = Participant(stranger.site("elm"))
    sites["zz"] = Participant(twin.site("ash"))
    hub = Hub(hub_settings(federation), WithinProcess(sites))
    found = hub.run()
    assert any("'elm' is not in this federation" in note for note in found.notes)
    assert any("a second site called 'ash' tried to join" in note for note in found.notes)
    assert hub.addresses["ash"] == "ash"


def test_a_model_that_cannot_do_what_is_asked(federation: Federation) -> None:
    settings = FedRelax(rounds=1, loss="absolute", discrepancy="squared")
    federation.change("birch", model="tree")
    refused(federation, "without site 'birch'.*DecisionTreeRegressor", method=settings)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"continued": True}, "continued=True is not supported"),
        ({"order": "sequential"}, "order='sequential' is not supported"),
        ({"patience": 2}, "patience=2 is not supported"),
    ],
)
def test_settings_that_a_federation_does_not_serve(
    federation: Federation, given: dict[str, object], text: str
) -> None:
    refused(federation, text, method=FedRelax(rounds=1, **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"naem": "x"}, "has 'naem', which is not known; did you mean 'name'"),
        ({"name": "a/b"}, "has 'a/b' under 'name', which should be up to 100 letters"),
        ({"public": "rows.csv"}, "public = 'rows.csv' should be one of gaussian"),
        ({"task": "ranking"}, "has 'ranking' under 'task', which should be"),
        ({"keys": {"birch": "abc"}}, "the key of site 'birch'"),
        ({"keys": {}}, "no key of neighbour 'birch' is pinned"),
        (
            {"neighbours": {"birch": -1.0}},
            "has -1.0 under 'neighbours.birch', which should be greater than 0",
        ),
        (
            {"public_rows": 0},
            "has 0 under 'public_rows', which should be greater than or equal to 1",
        ),
    ],
)
def test_a_site_file_that_is_wrong(
    federation: Federation, values: dict[str, object], text: str
) -> None:
    federation.change("ash", **values)
    with pytest.raises(FedRelaxError, match=text):
        read_site(federation.file("ash"))
