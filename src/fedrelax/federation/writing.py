"""What the hub shows: a live page, and at the end numbers, history, edges and a report, but no model."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.engines import losses_of
from fedrelax.evaluation import Measure, get_measure
from fedrelax.evaluation.evaluation import gains
from fedrelax.federation.boxes import box_bytes
from fedrelax.federation.ending import estimator_of
from fedrelax.federation.hub import Federated, Hub
from fedrelax.federation.letters import Finished
from fedrelax.federation.settings import HubSettings
from fedrelax.graph import Graph
from fedrelax.live import LiveView
from fedrelax.live.state import Progress
from fedrelax.models.elsewhere import Elsewhere, ElsewhereModel
from fedrelax.models.names import short_name
from fedrelax.report.page import write_report
from fedrelax.runtime import History, Record
from fedrelax.solvers.base import EdgeValues, Result
from fedrelax.storage import save_result


class FederationView(LiveView):
    """Shows a run on a page that the hub's machine serves; its address is in the hub's status."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(say=lambda address: setattr(hub.memory, "live", address))
        self._hub = hub

    def after_round(self, record: Record) -> str | None:
        """Show the numbers, and which sites did not answer."""
        told = super().after_round(record)
        missed = self._hub.memory.missed
        missing = [name for name, rounds in missed.items() if record.round in rounds]
        if missing:
            most = self._hub.settings.rounds
            words = f"Round {record.round} of {most}. Missing: {', '.join(missing)}."
            more = record.round < most
            self._state.tell(Progress(words, record.round, most, stoppable=more))
        return told


def write_federated(found: Federated, hub: HubSettings) -> Path:
    """Write the hub's folder and return its path; an earlier result there is replaced."""
    task = found.agreement.task
    return save_result(
        hub.out,
        fitted_of(found, hub),
        nodes=lines_of(found),
        metrics=metrics_of(found, hub),
        config={"sites": list(found.agreement.labels), "alpha": found.alpha, "task": task.kind},
        feature_names=found.agreement.features,
        target=hub.target,
        overwrite=True,
        more=[write_report] if find_spec("plotly") is not None else [],
    )


def fitted_of(found: Federated, hub: HubSettings) -> Any:
    """Return an estimator that holds the run's results; its models stay at the sites."""
    task, graph = found.agreement.task, found.agreement.graph
    models: dict[Any, Any] = {
        name: ElsewhereModel(Elsewhere(short_name(hello.model), name), task)
        for name, hello in found.agreement.hellos.items()
    }
    apart = found.lane.discrepancies(graph.adjacency)
    losses = losses_of(hub.method, task.kind)
    records = [
        record
        for record in found.outcome.history.records
        if np.isfinite(record.node_local_loss).any()
    ]
    result = Result(
        local_models=models,
        alone=models,
        task=task,
        graph=graph,
        discrepancies=EdgeValues(graph, np.where(np.isfinite(apart), apart, np.nan)),
        kept=None if found.lane.wiring is None else Graph(found.lane.edges, graph.labels),
        history=History(found.outcome.history.labels, records),
        n_rounds=found.outcome.n_rounds,
        reason=found.outcome.reason,
        stayed=tuple(found.alone),
        losses=(losses[0].name, losses[1].name),
        engine="federation",
    )
    hellos = found.agreement.hellos.values()
    ways = list(dict.fromkeys(hello.public for hello in hellos))
    drawn, rows = ways[0] if len(ways) == 1 else "several ways", max(h.public_rows for h in hellos)
    ready, wiring = found.agreement.ready, found.lane.wiring
    fitted = estimator_of(result, ready, found.alpha, wiring, drawn, rows)
    fitted.choice_ = found.choice
    return fitted


def lines_of(found: Federated) -> Any:
    """Return a table with one line per site: rows, errors on its test rows, and rounds it missed."""
    import pandas as pd

    measure = get_measure(None, found.agreement.task.kind)
    lines = []
    for name, hello in found.agreement.hellos.items():
        reports = [found.reports[name]] if name in found.reports else []
        line = {
            "node": name,
            "model": short_name(hello.model),
            "rows": hello.rows,
            "test_rows": sum(report.test_rows for report in reports),
            **{way: _error(measure, reports, way) for way in ("alone", "together")},
            "missed": spans(found.missed.get(name, [])),
        }
        lines.append(line)
    frame = pd.DataFrame(lines)
    return frame.assign(gain=gains(frame["alone"].to_numpy(), frame["together"].to_numpy()))


def _error(measure: Measure, reports: Collection[Finished], way: str) -> float:
    """Return the error over the test rows of some sites; NaN if they have none."""
    rows = sum(report.test_rows for report in reports)
    total = sum(getattr(report.errors, way) or 0.0 for report in reports)
    return measure.of_rows(np.array([total / rows])) if rows else math.nan


def spans(rounds: Sequence[int]) -> str:
    """Return round numbers as readable ranges.

    >>> spans([1, 2, 3, 7])
    '1-3, 7'
    """
    groups = groupby(enumerate(rounds), key=lambda pair: pair[1] - pair[0])
    runs = [[round for _, round in group] for _, group in groups]
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def metrics_of(found: Federated, hub: HubSettings) -> dict[str, Any]:
    """Return what was measured, for ``metrics.json``."""
    task, hellos = found.agreement.task, list(found.agreement.hellos.values())
    measure = get_measure(None, task.kind)
    bytes_of_one = max(box_bytes(1, hello.public_rows, task.n_outputs) for hello in hellos)
    return {
        "task": task.kind,
        "nodes": len(hellos),
        "edges": found.agreement.graph.n_edges,
        "training_rows": sum(hello.rows for hello in hellos),
        "features": list(found.agreement.features),
        "stayed_alone": list(found.alone),
        "federation": {
            "measure": measure.name,
            **{w: _error(measure, found.reports.values(), w) for w in ("alone", "together")},
            "sealed": not hub.open,
            "candidates": 1 if found.choice is None else len(found.choice.candidates),
            "bytes_per_edge_and_round_of_one_run": bytes_of_one,
            "missed": {name: list(rounds) for name, rounds in found.missed.items()},
            "notes": list(found.notes),
        },
    }
