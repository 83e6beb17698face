"""What the hub shows: a live page, and at the end numbers, history, edges and a report, but no model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.engines import losses_of
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import get_measure
from fedrelax.evaluation.evaluation import gains
from fedrelax.federation.boxes import box_bytes
from fedrelax.federation.hub import Federated, Hub
from fedrelax.federation.settings import HubFile
from fedrelax.graph import Graph
from fedrelax.live import LiveView
from fedrelax.live.state import Progress
from fedrelax.models.elsewhere import Elsewhere, ElsewhereModel
from fedrelax.models.names import short_name
from fedrelax.report.page import write_report
from fedrelax.runtime import History, Record
from fedrelax.solvers import Result
from fedrelax.solvers.edges import EdgeValues
from fedrelax.storage import save_result


class FederationView(LiveView):
    """Shows a run on a page that the hub's machine serves; its address is in the hub's status."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(say=self._tell_address)
        self._hub = hub

    def _tell_address(self, text: str) -> None:
        self._hub.memory.live = text

    def after_round(self, record: Record) -> str | None:
        """Show the numbers, and which sites did not answer."""
        told = super().after_round(record)
        missing = [
            name for name, rounds in self._hub.memory.missed.items() if record.round in rounds
        ]
        if missing:
            most = self._hub.settings.rounds
            words = f"Round {record.round} of {most}. Missing: {', '.join(missing)}."
            more = record.round < most
            self._state.tell(Progress(words, record.round, most, stoppable=more))
        return told


def write_federated(found: Federated, file: HubFile) -> Path:
    """Write the hub's folder and return its path; an earlier result there is replaced."""
    fitted = fitted_of(found, file)
    lines, task = lines_of(found), found.agreement.task
    return save_result(
        file.out,
        fitted,
        nodes=lines,
        metrics=metrics_of(found, file, lines),
        config={"sites": list(found.agreement.labels), "alpha": found.alpha, "task": task.kind},
        feature_names=found.agreement.features,
        target=file.target,
        overwrite=True,
        more=[_report] if find_spec("plotly") is not None else [],
    )


def _report(draft: Path) -> None:
    write_report(draft)


def fitted_of(found: Federated, file: HubFile) -> Any:
    """Return an estimator that holds the run's results; its models stay at the sites."""
    task, graph = found.agreement.task, found.agreement.graph
    models: dict[Any, Any] = {
        name: ElsewhereModel(Elsewhere(short_name(hello.model), name), task)
        for name, hello in found.agreement.hellos.items()
    }
    apart = found.lane.discrepancies(graph.adjacency)
    losses = losses_of(file.settings.settings, task.kind)
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
    kind = FedRelaxClassifier if task.is_classification else FedRelaxRegressor
    fitted = kind.from_result(
        result,
        graph,
        alpha=found.alpha,
        wiring=found.lane.wiring,
        n_features=len(found.agreement.features),
        feature_names=found.agreement.features,
        preparation=found.agreement.ready,
    )
    fitted.choice_ = found.choice
    hellos = found.agreement.hellos.values()
    ways = list(dict.fromkeys(hello.public for hello in hellos))
    drawn = ways[0] if len(ways) == 1 else "several ways"
    return fitted.set_params(public=drawn, public_rows=max(h.public_rows for h in hellos))


def lines_of(found: Federated) -> Any:
    """Return a table with one line per site: rows, errors on its test rows, and rounds it missed."""
    import pandas as pd

    measure = get_measure(None, found.agreement.task.kind)
    lines = []
    for name, hello in found.agreement.hellos.items():
        said = found.reports.get(name, {})
        rows = said.get("test_rows") or 0
        errors = {
            way: measure.of_rows(np.array([total / rows]))
            if rows and total is not None
            else math.nan
            for way, total in (
                (w, (said.get("errors") or {}).get(w)) for w in ("alone", "together")
            )
        }
        lines.append(
            {
                "node": name,
                "model": short_name(hello.model),
                "rows": hello.rows,
                "test_rows": rows,
                **errors,
                "missed": spans(found.missed.get(name, [])),
            }
        )
    frame = pd.DataFrame(lines)
    return frame.assign(gain=gains(frame["alone"].to_numpy(), frame["together"].to_numpy()))


def spans(rounds: Sequence[int]) -> str:
    """Return round numbers as readable ranges.

    >>> spans([1, 2, 3, 7])
    '1-3, 7'
    """
    found: list[list[int]] = []
    for round in rounds:
        if found and round == found[-1][1] + 1:
            found[-1][1] = round
        else:
            found.append([round, round])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in found)


def metrics_of(found: Federated, file: HubFile, lines: Any) -> dict[str, Any]:
    """Return the numbers of a run for ``metrics.json``."""
    task = found.agreement.task
    measure = get_measure(None, task.kind)
    totals = {}
    for way in ("alone", "together"):
        told = [said for said in found.reports.values() if said.get("test_rows")]
        rows = sum(said["test_rows"] for said in told)
        total = sum(said["errors"][way] for said in told)
        totals[way] = measure.of_rows(np.array([total / rows])) if rows else math.nan
    lanes = 1 if found.choice is None else len(found.choice.candidates)
    hellos = list(found.agreement.hellos.values())
    return {
        "task": task.kind,
        "nodes": len(hellos),
        "edges": found.agreement.graph.n_edges,
        "training_rows": int(lines["rows"].sum()),
        "features": list(found.agreement.features),
        "alpha": found.alpha,
        "alpha_was_chosen": found.choice is not None,
        "stayed_alone": list(found.alone),
        "rounds": found.outcome.n_rounds,
        "reason": found.outcome.reason,
        "federation": {
            "measure": measure.name,
            **totals,
            "sealed": not file.settings.open,
            "candidates": lanes,
            "bytes_per_edge_and_round_of_one_run": max(
                box_bytes(1, hello.public_rows, task.n_outputs) for hello in hellos
            ),
            "missed": {name: list(rounds) for name, rounds in found.missed.items()},
            "notes": list(found.notes),
        },
    }
