"""Small federations for tests, and the same network within one process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedrelax import Graph, Network
from fedrelax.federation.boxes import new_key, public_of
from fedrelax.federation.participant import Participant
from fedrelax.federation.settings import HubSettings, SiteFile, read_site
from fedrelax.federation.table import (
    model_of,
    own_folds,
    parts_of,
    read_site_table,
)
from fedrelax.federation.trial import WithinProcess
from fedrelax.files import dump_toml
from fedrelax.public import draw_own
from fedrelax.runtime.site import seeds_of
from fedrelax.schema import Column, Preparation, Schema
from fedrelax.selection.search import FOLDS, TRIES
from fedrelax.solvers import FedRelax
from fedrelax.splits import RowGroups

NAMES = ("ash", "birch", "cedar", "elm", "fir", "oak")
MODELS = ("ridge", "forest", "tree", "knn", "sklearn.linear_model:Ridge", "boosting")
CLASSIFIERS = ("logistic", "forest", "tree", "knn", "logistic", "boosting")
SIX = FedRelax(rounds=3, tol=0.0)


@dataclass
class Federation:
    """Sites in folders, one beside the other."""

    home: Path
    names: tuple[str, ...]

    def file(self, name: str) -> Path:
        return self.home / name / "site.toml"

    def site(self, name: str) -> SiteFile:
        return read_site(self.file(name))

    def participants(self) -> dict[str, Participant]:
        return {name: Participant(self.site(name)) for name in self.names}

    def transport(self) -> WithinProcess:
        return WithinProcess(self.participants())

    def change(self, name: str, /, **values: Any) -> None:
        import tomllib

        said = tomllib.loads(self.file(name).read_text())
        self.file(name).write_text(dump_toml({**said, **values}))


def make(
    home: Path,
    names: tuple[str, ...] = NAMES,
    models: tuple[str, ...] = MODELS,
    *,
    task: str = "regression",
    rows: int = 40,
    complete: bool = False,
    **more: Any,
) -> Federation:
    """Write a ring of sites with rows of like but not equal lines.

    If ``complete``, everybody is everybody's neighbour, and every second site has another line.
    """
    rng = np.random.default_rng(7)
    keys = {name: new_key() for name in names}
    for place, name in enumerate(names):
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        m = rows + 3 * place
        X = rng.normal(size=(m, 3))
        y = X @ [1.0, -2.0, 0.5] + 0.3 * place + 0.3 * rng.normal(size=m)
        if complete:
            y = (-1.0) ** place * (X @ [1.0, -2.0, 0.5]) + 0.3 * rng.normal(size=m)
        frame = pd.DataFrame(X, columns=["x1", "x2", "x3"])
        frame["y"] = np.where(y > 0, "up", "down") if task == "classification" else y
        frame.to_csv(folder / "rows.csv", index=False)
        near = {names[place - 1], names[(place + 1) % len(names)]} - {name}
        if complete:
            near = set(names) - {name}
        (folder / "site.key").write_text(keys[name])
        (folder / "site.key").chmod(0o600)
        said = {
            "name": name,
            "data": "rows.csv",
            "target": "y",
            "task": task,
            "model": models[place % len(models)],
            "public": "gaussian",
            "public_rows": 20,
            "key": "site.key",
            "neighbours": {other: 1.0 for other in sorted(near)},
            "keys": {other: public_of(keys[other]) for other in sorted(near)},
            **more,
        }
        said = {key: value for key, value in said.items() if value is not None}
        (folder / "site.toml").write_text(dump_toml(said))
    return Federation(home, names)


def hub_settings(federation: Federation, **more: Any) -> HubSettings:
    given = {"method": SIX, "alpha": 0.5, "wait": 30.0, "join": 30.0, **more}
    return HubSettings(sites=federation.names, **given)


PLAIN = Preparation(Schema(tuple(Column(name, "number") for name in ("x1", "x2", "x3"))))


def networks(
    federation: Federation, settings: FedRelax, ready: Preparation = PLAIN
) -> tuple[Network, list[Network]]:
    """Return the network of the same rows within this process, and its folds."""
    names = federation.names
    seeds = seeds_of(settings.random_state, len(names)).tolist()
    sites = [federation.site(name) for name in names]
    edges = [(s.name, j, a) for s in sites for j, a in s.neighbours.items() if s.name < j]
    graph = Graph.from_edges(edges, labels=list(names))
    X, y = [], []
    public, models = {}, {}
    rows: list[dict[str, Any]] = [{} for _ in range(1 + TRIES)]
    held: list[dict[str, Any]] = [{} for _ in range(1 + TRIES)]
    start = 0
    for site, seed in zip(sites, seeds, strict=True):
        table = read_site_table(site)
        own = ready.of_node(site.name, table.coded(ready.schema))
        train = parts_of(site, len(table))[0]
        public[site.name] = draw_own(site.public, own[train], site.public_rows, seed, ready.pieces)
        models[site.name] = model_of(site, own[train], ready)
        parts = [(train, train[:0]), *own_folds(train, FOLDS, seed)]
        for k, (used, left) in enumerate(parts):
            rows[k][site.name], held[k][site.name] = start + used, start + left
        X.append(own)
        y.append(table.y)
        start += len(table)
    shared: Any = public
    if settings.update == "difference" and all(len(s.neighbours) == len(names) - 1 for s in sites):
        shared = np.concatenate([public[name] for name in sorted(names)])
    made = [
        Network.from_rows(
            graph,
            sites[0].task,
            np.concatenate(X),
            np.concatenate(y),
            RowGroups.of(rows[k]),
            models,
            public=shared,
            held=RowGroups.of(held[k], list(rows[k])),
            preparation=ready,
        )
        for k in range(1 + TRIES)
    ]
    return made[0], made[1:]


def same_history(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    assert len(one) == len(other)
    for name in ("local_loss", "gtv", "objective", "change", "node_local_loss", "node_gtv"):
        np.testing.assert_allclose(one[name], other[name], rtol=0, atol=tolerance, err_msg=name)


def same_models(
    federation: Federation, result: Any, tolerance: float = 1e-9, ready: Preparation = PLAIN
) -> None:
    """Check that every site's own folder predicts as the network within one process does."""
    from fedrelax.storage import load_result

    for name in federation.names:
        site = federation.site(name)
        table = read_site_table(site)
        X = ready.of_node(name, table.coded(ready.schema))
        mine = load_result(site.state / "model").answers(table.features)
        np.testing.assert_allclose(
            mine, result.local_models[name].predict(X), rtol=0, atol=tolerance
        )
