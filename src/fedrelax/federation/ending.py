"""The end of a run at a site: the model of the round that is kept, its errors, and its own folder."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import get_measure
from fedrelax.federation.lane_sites import LaneSites, fit, fit_again
from fedrelax.federation.letters import RECORD, Finish
from fedrelax.federation.state import Folder
from fedrelax.files import Refused
from fedrelax.graph import Graph
from fedrelax.models import LocalModel
from fedrelax.runtime import History, Record
from fedrelax.schema import Preparation
from fedrelax.solvers import Result
from fedrelax.storage import save_result
from fedrelax.wiring import Wiring


def end_of_run(sites: LaneSites, folder: Folder, asked: Finish) -> dict[str, Any]:
    """Save the model of the round that is kept; return the site's errors on its test rows."""
    lane = asked.lane
    if lane >= len(sites.plan.lanes):
        raise Refused(f"lane {lane} is not in this run's plan")
    own = sites.of(lane)
    fit(own, own.local_problem(), 0)
    model = alone = own.model
    if not asked.alone:
        own = sites.of(lane)
        fit_again(own, folder.load(asked.round)[1][lane], 0)
        model = own.model
    _save(sites, model, alone, asked)
    errors = {"alone": _errors(sites, alone), "together": _errors(sites, model)}
    return {"test_rows": len(sites.test), "errors": errors}


def estimator_of(
    result: Result,
    ready: Preparation,
    alpha: float,
    wiring: Wiring | None,
    public: str,
    public_rows: int,
) -> FedRelaxClassifier | FedRelaxRegressor:
    """Return an estimator that holds the result of a run over sites."""
    kind = FedRelaxClassifier if result.task.is_classification else FedRelaxRegressor
    columns = ready.schema.column_names
    fitted = kind.from_result(
        result,
        result.graph,
        alpha=alpha,
        wiring=wiring,
        n_features=len(columns),
        feature_names=columns,
        preparation=ready,
    )
    fitted.set_params(public=public, public_rows=public_rows)
    return fitted


def _errors(sites: LaneSites, model: LocalModel) -> float | None:
    """Return the default measure's sum over the test rows; None if there are none."""
    test, task = sites.test, sites.plan.task
    if not len(test):
        return None
    measure = get_measure(None, task.kind)
    return float(np.sum(measure.per_row(task, sites.y[test], model.predict(sites.X[test]))))


def _history(name: str, asked: Finish) -> History:
    records = []
    for round, line in enumerate(asked.history):
        told = [math.nan if value is None else value for value in line]
        own = dict(zip(RECORD, told, strict=True))
        values: dict[str, Any] = {**own, "objective": own["local_loss"]}
        values |= {f"node_{key}": np.array([own[key]]) for key in RECORD[:3]}
        records.append(Record(round=round, **values))
    return History((name,), records)


def _save(sites: LaneSites, model: LocalModel, alone: LocalModel, asked: Finish) -> None:
    """Write the site's own folder, from which ``fedrelax predict`` answers."""
    site = sites.site
    task, graph = sites.plan.task, Graph.from_edges([], labels=[site.name])
    coupling, columns = sites.of(0).coupling, sites.plan.ready.schema.column_names
    result = Result(
        local_models={site.name: model},
        alone={site.name: alone},
        task=task,
        graph=graph,
        discrepancies={},
        history=_history(site.name, asked),
        n_rounds=asked.round,
        reason=asked.reason,
        losses=(coupling.loss.name, coupling.discrepancy.name),
        engine="federation",
    )
    drawn, rows = site.public if site.drawn else "given", len(sites.public.of(site.name))
    save_result(
        site.state / "model",
        estimator_of(result, sites.plan.ready, asked.alpha, None, drawn, rows),
        metrics={"task": task.kind, "training_rows": len(sites.train)},
        config={"site": site.name, "model": site.model, "run": sites.plan.run},
        feature_names=columns,
        target=site.target,
        overwrite=True,
    )
