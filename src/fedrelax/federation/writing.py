"""What is shown and written: the hub's live page, its numbers and report, and the model of a site."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import get_measure
from fedrelax.evaluation.evaluation import gains
from fedrelax.federation.hub import Federated, Hub
from fedrelax.federation.letters import Finish
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.site_run import SiteRun
from fedrelax.graph import Graph
from fedrelax.live import LiveView
from fedrelax.models import LocalModel
from fedrelax.models.elsewhere import Elsewhere, ElsewhereModel
from fedrelax.models.names import short_name
from fedrelax.report.page import write_report
from fedrelax.runtime import History, Record
from fedrelax.schema import Preparation
from fedrelax.solvers.base import EdgeValues, Result
from fedrelax.storage import save_result
from fedrelax.typing import DataFrame, Label
from fedrelax.wiring import Wiring

log = logging.getLogger("fedrelax.federation")
Fitted = FedRelaxClassifier | FedRelaxRegressor


def _estimator(
    result: Result,
    ready: Preparation,
    alpha: float,
    update: str,
    public: tuple[str, int],
    wiring: Wiring | None = None,
) -> Fitted:
    """Return an estimator that holds a result; ``public`` says how public rows are drawn, and how many."""
    kind = FedRelaxClassifier if result.task.is_classification else FedRelaxRegressor
    columns = ready.schema.column_names
    fitted = kind.from_result(
        result,
        result.graph,
        alpha=alpha,
        wiring=wiring,
        update=update,
        n_features=len(columns),
        feature_names=columns,
        preparation=ready,
    )
    fitted.set_params(public=public[0], public_rows=public[1])
    fitted.public_rows_ = public[1]
    return fitted


# A site


def save_site(
    sites: SiteRun, asked: Finish, alone: LocalModel, together: LocalModel
) -> dict[str, Any]:
    """Write the site's own folder, from which ``fedrelax predict`` answers.

    Return its errors on its test rows, as plain values: sums of the default measure.
    """
    site, plan, test, coupling = sites.site, sites.plan, sites.test, sites.of(0).coupling
    result = Result(
        local_models={site.name: together},
        alone={site.name: alone},
        task=plan.task,
        graph=Graph.from_edges([], labels=[site.name]),
        discrepancies={},
        history=History((site.name,)),
        n_rounds=asked.round,
        reason=asked.reason,
        losses=(coupling.loss.name, coupling.discrepancy.name),
        engine="federation",
    )
    public = site.public, len(sites.public.of(site.name))
    save_result(
        site.state / "model",
        _estimator(result, plan.ready, asked.alpha, coupling.update, public),
        metrics={"task": plan.task.kind, "training_rows": len(sites.train)},
        config={"site": site.name, "model": site.model, "run": plan.run},
        feature_names=plan.ready.schema.column_names,
        target=site.target,
        overwrite=True,
    )
    report: dict[str, Any] = {"test_rows": len(test), "alone": None, "together": None}
    per_row = get_measure(None, plan.task.kind).per_row
    for way, model in (("alone", alone), ("together", together)) if len(test) else ():
        errors = per_row(plan.task, sites.y[test], model.predict(sites.X[test]))
        report[way] = float(np.sum(errors))
    return report


# The hub


class FederationView(LiveView):
    """Shows a run on a page that the hub's machine serves; its address is in the hub's log."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(say=log.info)
        self._hub = hub

    def after_round(self, record: Record) -> str | None:
        """Show the numbers, and which sites did not answer."""
        stop = super().after_round(record)
        missed = self._hub.missed
        missing = [name for name, rounds in missed.items() if record.round in rounds]
        if missing:
            most = self._hub.settings.rounds
            words = f"Round {record.round} of {most}. Missing: {', '.join(missing)}."
            more = record.round < most
            self._state.tell(words, record.round, most, stoppable=more)
        return stop


def write_federated(federated: Federated, hub: HubSettings) -> Path:
    """Write the hub's folder and return its path; an earlier result there is replaced."""
    agreement = federated.agreement
    task = agreement.task.kind
    return save_result(
        hub.out,
        fitted_of(federated, hub),
        nodes=_lines(federated),
        metrics=_metrics(federated),
        config={"sites": list(agreement.hellos), "alpha": federated.alpha, "task": task},
        feature_names=agreement.ready.schema.column_names,
        target=hub.target,
        overwrite=True,
        more=[write_report] if find_spec("plotly") is not None else [],
    )


def fitted_of(federated: Federated, hub: HubSettings) -> Fitted:
    """Return an estimator that holds the run's results; its models stay at the sites."""
    agreement, lane, outcome = federated.agreement, federated.lane, federated.outcome
    task, graph, hellos = agreement.task, agreement.graph, agreement.hellos
    models: dict[Label, LocalModel] = {
        name: ElsewhereModel(Elsewhere(short_name(hello.model), name), task)
        for name, hello in hellos.items()
    }
    apart, losses = lane.discrepancies(graph.adjacency), hub.method.losses(task.kind)
    records = [r for r in outcome.history.records if np.isfinite(r.node_local_loss).any()]
    result = Result(
        local_models=models,
        alone=models,
        task=task,
        graph=graph,
        discrepancies=EdgeValues(graph, np.where(np.isfinite(apart), apart, np.nan)),
        kept=None if lane.wiring is None else Graph(lane.edges, graph.labels),
        history=History(outcome.history.labels, records),
        n_rounds=outcome.n_rounds,
        reason=outcome.reason,
        stayed=tuple(federated.alone),
        losses=(losses[0].name, losses[1].name),
        engine="federation",
    )
    update, counts = hub.method.update, federated.public.values()
    complete = all(len(hello.neighbours) == len(hellos) - 1 for hello in hellos.values())
    rows = sum(counts) if update == "difference" and complete else max(counts)  # of one answer
    ways = {hello.public for hello in hellos.values()}
    public = ways.pop() if len(ways) == 1 else "several ways", rows
    fitted = _estimator(result, agreement.ready, federated.alpha, update, public, lane.wiring)
    fitted.choice_ = federated.choice
    return fitted


def _lines(federated: Federated) -> DataFrame:
    """Return a table with one line per site: rows, errors on its test rows, and rounds it missed."""
    import pandas as pd

    lines = [
        {
            "node": name,
            "model": short_name(hello.model),
            "rows": hello.rows,
            **_errors(federated, [name]),
            "missed": ", ".join(map(str, federated.missed.get(name, []))),
        }
        for name, hello in federated.agreement.hellos.items()
    ]
    frame = pd.DataFrame(lines)
    return frame.assign(gain=gains(frame["alone"].to_numpy(), frame["together"].to_numpy()))


def _errors(federated: Federated, names: Collection[str]) -> dict[str, float]:
    """Return the number of test rows of some sites, and the errors over them; NaN if they have none."""
    measure = get_measure(None, federated.agreement.task.kind)
    reports = [report for name, report in federated.reports.items() if name in names]
    rows, errors = sum(report.test_rows for report in reports), dict[str, float]()
    for way in ("alone", "together"):
        total = sum(getattr(report, way) or 0.0 for report in reports)
        errors[way] = measure.of_rows(np.array([total / rows])) if rows else math.nan
    return {"test_rows": rows, **errors}


def _metrics(federated: Federated) -> dict[str, Any]:
    """Return what was measured, for ``metrics.json``."""
    agreement, choice = federated.agreement, federated.choice
    errors = _errors(federated, agreement.hellos)
    return {
        "task": agreement.task.kind,
        "nodes": len(agreement.hellos),
        "edges": agreement.graph.n_edges,
        "training_rows": sum(hello.rows for hello in agreement.hellos.values()),
        "features": list(agreement.ready.schema.column_names),
        "stayed_alone": list(federated.alone),
        "federation": {
            "measure": get_measure(None, agreement.task.kind).name,
            "alone": errors["alone"],
            "together": errors["together"],
            "candidates": 1 if choice is None else len(choice.candidates),
            "most_bytes_per_edge_and_round": federated.largest_box,
            "missed": {name: list(rounds) for name, rounds in federated.missed.items()},
            "notes": list(federated.notes),
        },
    }
