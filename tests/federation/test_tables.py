"""Sites whose tables hold categories, dates, texts and gaps: agreed on in the handshake, learned from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.federation.hub import Hub
from fedrelax.federation.settings import hub_of
from fedrelax.federation.table import read_site_table
from fedrelax.schema import Schema, schema_of
from fedrelax.storage import load_result
from tests.federation.sites import (
    SIX,
    Federation,
    WithinProcess,
    hub_settings,
    make,
    networks,
    same_history,
    same_models,
)

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
NAMES = ("ash", "birch", "cedar")


def dressed(federation: Federation, words: bool = False) -> None:
    """Give every site a type, a date and gaps beside its numbers."""
    for place, name in enumerate(federation.names):
        path = federation.home / name / "rows.csv"
        frame, rng = pd.read_csv(path), np.random.default_rng(place)
        frame.loc[rng.random(len(frame)) < 0.2, "x2"] = np.nan
        frame["type"] = rng.choice(["kiosk", "mall", "market"], len(frame))
        frame["y"] += 2.0 * (frame["type"] == "mall")
        days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(frame)), unit="D")
        frame["day"] = days.strftime("%Y-%m-%d")
        if words:
            frame["note"] = [
                f"{rng.choice(['late', 'early'])} van {k % 7} {k}" for k in range(len(frame))
            ]
        frame.to_csv(path, index=False)


@pytest.mark.slow
@pytest.mark.parametrize("models", [("ridge", "tree", "forest"), ("ridge", "boosting", "tree")])
def test_a_table_of_all_kinds_gives_what_one_process_gives(
    tmp_path: Path, models: tuple[str, ...]
) -> None:
    words = "boosting" not in models
    federation = make(tmp_path, names=NAMES, models=models, public="blend")
    dressed(federation, words)
    found = Hub(hub_settings(federation), federation.transport()).run()
    ready = found.agreement.ready
    assert ready.encoded == words
    kinds = {column.name: column.kind for column in ready.schema.columns}
    assert kinds["type"] == "category" and kinds["day"] == "date" and ready.schema.columns[1].gaps
    assert "note" not in kinds  # free text is left out
    result = replace(SIX, alpha=0.5).solve(networks(federation, SIX, ready)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result, ready=ready)


def test_a_site_predicts_its_own_file_as_it_stands(tmp_path: Path) -> None:
    federation = make(tmp_path, names=NAMES, models=("ridge",), public="blend")
    dressed(federation)
    Hub(hub_settings(federation), federation.transport()).run()
    rows = pd.read_csv(tmp_path / "ash" / "rows.csv")
    model = load_result(federation.site("ash").state / "model")
    known = model.answers(rows.drop(columns="y")[["day", "type", "x3", "x2", "x1"]])[:, 0]
    noise = float(np.sqrt(np.mean((known - rows["y"]) ** 2)))
    assert noise < 0.8 * rows["y"].std()
    strange = model.answers(rows.drop(columns="y").assign(type="airport"))
    assert np.isfinite(strange).all()


def test_sites_read_numbers_as_they_write_them_and_leave_out_rows_without_a_target(
    tmp_path: Path,
) -> None:
    federation = make(tmp_path, names=NAMES, models=("ridge",), public="blend")
    plain = {name: pd.read_csv(tmp_path / name / "rows.csv") for name in NAMES}
    for name, frame in plain.items():
        texts = frame.map(lambda value: f"{value:.6f}".replace(".", ","))
        texts = texts.assign(x1=texts["x1"] + " €")
        texts.loc[1, "y"] = "n/a"
        texts.to_csv(tmp_path / name / "rows.csv", index=False, sep=";")
    found = Hub(hub_settings(federation), federation.transport()).run()
    marks = {column.name: column.decimal for column in found.agreement.ready.schema.columns}
    assert marks == {"x1": ",", "x2": "", "x3": ""}
    table = read_site_table(federation.site("ash"))
    assert f"1 of {len(plain['ash'])} rows are left out" in table.notes[0]
    rows = plain["ash"].drop(index=1)
    coded = table.coded(found.agreement.ready.schema)
    np.testing.assert_allclose(coded, rows[["x1", "x2", "x3"]].to_numpy(), atol=1e-6)
    np.testing.assert_allclose(table.y, rows["y"], atol=1e-6)


def test_a_schema_that_the_hub_gives_spares_sites_from_telling(tmp_path: Path) -> None:
    federation = make(tmp_path, names=NAMES, models=("ridge",), public="blend")
    dressed(federation)
    frames = [pd.read_csv(tmp_path / name / "rows.csv").drop(columns="y") for name in NAMES]
    schema = schema_of(pd.concat(frames))[0]
    found = Hub(hub_settings(federation, schema=schema), federation.transport()).run()
    assert all(hello.columns == () for hello in found.agreement.hellos.values())
    assert found.agreement.ready.schema.to_dict() == schema.to_dict()
    path = tmp_path / "birch" / "rows.csv"
    pd.read_csv(path).rename(columns={"type": "sort"}).to_csv(path, index=False)
    hub = Hub(hub_settings(federation, schema=schema, join=0.1), federation.transport())
    with pytest.raises(FedRelaxError, match="missing after .* seconds: 'birch'; start"):
        hub.run()
    assert any("site 'birch': rows.csv has no column 'type'" in note for note in hub.notes)


def test_a_schema_is_named_in_the_hubs_file(tmp_path: Path) -> None:
    import json

    schema = Schema.from_dict({"columns": [{"name": "x1", "kind": "number"}]})
    (tmp_path / "schema.json").write_text(json.dumps(schema.to_dict()))
    said = {"sites": ["a", "b"], "schema": "schema.json"}
    assert hub_of(said, tmp_path, "hub.toml").schema == schema
    with pytest.raises(FedRelaxError, match=r"hub.toml: .*missing.json cannot be read"):
        hub_of({**said, "schema": "missing.json"}, tmp_path, "hub.toml")


def test_a_restarted_hub_keeps_the_columns_that_were_agreed_on(tmp_path: Path) -> None:
    federation = make(tmp_path / "sites", names=NAMES, models=("ridge",), public="blend")
    dressed(federation)
    where = tmp_path / "hub"

    class Cut(WithinProcess):
        def send(self, letters: Any, wait: float, late: Any = ()) -> Any:
            if any(letter.head.get("round") == 2 for letter in letters.values()):
                raise KeyboardInterrupt
            return super().send(letters, wait, late)

    with pytest.raises(KeyboardInterrupt):
        Hub(hub_settings(federation), Cut(federation.participants()), where).run()
    path = tmp_path / "sites" / "ash" / "rows.csv"
    path.write_text(path.read_text().replace("kiosk", "stand"))  # would be another category now
    found = Hub(hub_settings(federation), federation.transport(), where).run()
    assert found.agreement.ready.schema.columns[3].categories == ("kiosk", "mall", "market")
