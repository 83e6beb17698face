"""Train, measure and save: what ``fit`` and ``demo`` have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.cli.console import Talk
from fedrelax.cli.inputs import Inputs
from fedrelax.cli.rounds import Watch, start_workers
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FEW_ROUNDS, FedRelaxClassifier, FedRelaxRegressor, settings_of
from fedrelax.evaluation import MEASURES, compare
from fedrelax.live import LiveView
from fedrelax.models.names import short_name
from fedrelax.report.summary import Summary, summarise
from fedrelax.report.writing import REPORT, write_report
from fedrelax.selection import FOLDS, TRIES, Choice, choose, wiring_name
from fedrelax.solvers import Result
from fedrelax.storage import save_result
from fedrelax.storage.saving import Fitted
from fedrelax.wiring import as_wiring

MANY_FITS = 20_000
STOPPED = "stopped by Ctrl-C"
STOPPED_LIVE = "stopped from the live page"
TOLERANCE = 1e-3
"""Rounds end when predictions change by less than this share: more digits than any table shows."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained network, how alpha was chosen (None: it was given), and the errors, if measured."""

    fitted: Fitted
    choice: Choice | None
    summary: Summary | None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or the live page ended the rounds."""
        return self.fitted.result_.reason in (STOPPED, STOPPED_LIVE)


def estimator_of(
    inputs: Inputs, *, rounds: int | None, public_rows: int, wiring: str = "fixed"
) -> Fitted:
    """Return the estimator for the inputs, not yet fitted."""
    kind = FedRelaxRegressor if inputs.task == "regression" else FedRelaxClassifier
    return kind(
        inputs.models,
        graph=inputs.graph,
        public=inputs.public,
        public_rows=public_rows,
        rounds=rounds,
        tol=TOLERANCE,
        wiring=wiring,
    )


def train(
    inputs: Inputs,
    talk: Talk,
    *,
    alpha: str | float,
    rounds: int | None,
    public_rows: int,
    jobs: int,
    seed: int,
    wiring: str = "fixed",
    alphas: Sequence[float] | None = None,
    folds: int = FOLDS,
    view: LiveView | None = None,
) -> Outcome:
    """Choose on the training rows what is "auto", run the rounds, measure on test rows."""
    estimator = estimator_of(inputs, rounds=rounds, public_rows=public_rows, wiring=wiring)
    given = alpha if isinstance(alpha, str) else float(alpha)
    estimator.set_params(alpha=given, n_jobs=jobs, random_state=seed)
    own = inputs.train
    rows = (inputs.X[own], inputs.y[own], inputs.nodes[own])
    labels = list(dict.fromkeys(rows[2].tolist()))
    if view is not None:
        estimator.set_params(rounds=estimator.most_rounds(labels))  # someone wants to see them
    elif rounds is None and estimator.is_linear(labels):
        estimator.set_params(tol=None)  # straight to the fixed point, where digits are cheap
    start_workers(jobs)
    with talk.progress() as progress:
        choice = None
        if alpha == "auto" or wiring == "auto":
            choice = _choose(estimator, rows, alphas, folds, talk, progress, view)
            estimator.set_params(**settings_of(choice))
        watch = Watch(progress)
        callbacks = (watch,) if view is None else (watch, view)
        with watch.catching_ctrl_c():
            fitted: Fitted = estimator.set_params(callbacks=callbacks).fit(*rows[:2], nodes=rows[2])
    fitted.set_params(callbacks=())
    if choice is not None:
        fitted.choice_ = choice
    if fitted.result_.reason == "stopped by a callback":
        reason = STOPPED if watch.interrupted else STOPPED_LIVE
        fitted.result_ = replace(fitted.result_, reason=reason)
        talk.note(f"{reason} after round {fitted.n_rounds_}; its models are kept.")
    if view is not None:
        view.tell("The rounds are done; measuring and saving.", 1, 1)
    return Outcome(fitted, choice, None if own.all() else _measure(fitted, rows, inputs))


def _choose(
    estimator: Fitted,
    rows: tuple[Any, Any, Any],
    alphas: Sequence[float] | None,
    folds: int,
    talk: Talk,
    progress: Any,
    view: LiveView | None,
) -> Choice:
    nodes, counts = np.unique(rows[2].astype(str), return_counts=True)
    if counts.max() < 2:
        raise FedRelaxError(
            "choosing by validation needs nodes with at least two training rows, and every node has "
            "one; give a number and a wiring, such as --alpha 0.1 --wiring fixed"
        )
    folds = min(folds, int(counts.max()))  # every fold holds out a row somewhere
    labels = list(dict.fromkeys(rows[2].tolist()))
    tried = len(estimator.alphas_for(labels) if alphas is None else alphas)
    if estimator.alpha != "auto":
        tried = 1
    trials = min(folds, TRIES) * tried * len(estimator.wirings_for(labels))
    most = estimator.most_rounds(labels)
    if most <= FEW_ROUNDS and trials * (most + 1) * len(nodes) > MANY_FITS:
        fits = trials * (most + 1) * len(nodes)
        talk.note(
            f"choosing alpha takes up to {fits:,} fits; a given --alpha or fewer --rounds is quicker."
        )
    line = progress.add_task("Choosing", total=trials, numbers="alpha, wiring and rounds")

    def show(done: int, total: int) -> None:
        progress.update(line, completed=done, total=total)
        if view is not None:
            view.tell(f"Choosing alpha, wiring and rounds: {done} of {total}.", done, total)

    return choose(estimator, *rows, alphas=alphas, folds=folds, progress=show)


def _measure(fitted: Fitted, rows: tuple[Any, Any, Any], inputs: Inputs) -> Summary:
    test = ~inputs.train
    held = (inputs.X[test], inputs.y[test], inputs.nodes[test])
    lines, totals = compare(fitted, rows, held)
    lines["model"] = [short_name(inputs.model_names[label]) for label in lines["node"]]
    return summarise(MEASURES[inputs.task], lines, totals)


def save(
    out: Path,
    inputs: Inputs,
    outcome: Outcome,
    talk: Talk,
    *,
    config: Mapping[str, Any],
    comment: str,
    node_column: str,
    target: str,
    overwrite: bool,
    more: Sequence[Callable[[Path], None]] = (),
) -> dict[str, Any]:
    """Write the directory and return the metrics that it holds."""
    fitted = outcome.fitted
    metrics = describe(inputs, outcome)
    writers = [*more, lambda draft: _write_views(draft, outcome, talk)]
    save_result(
        out,
        fitted,
        nodes=_lines(inputs, outcome),
        metrics=metrics,
        config=config,
        comment=comment,
        feature_names=inputs.feature_names,
        node_column=node_column,
        target=target,
        overwrite=overwrite,
        more=writers,
    )
    return metrics


def describe(inputs: Inputs, outcome: Outcome) -> dict[str, Any]:
    """Return the numbers of a run for ``metrics.json`` and ``--json``."""
    result, choice = outcome.fitted.result_, outcome.choice
    return {
        "task": inputs.task,
        "nodes": len(result.local_models),
        "edges": outcome.fitted._whole_graph.n_edges,
        "training_rows": int(inputs.train.sum()),
        "features": list(inputs.feature_names),
        "alpha": outcome.fitted.alpha_,
        "alpha_was_chosen": choice is not None,
        "wiring": wiring_name(as_wiring(outcome.fitted.wiring_)),
        **_kept(result),
        "stayed_alone": list(result.stayed),
        "rounds": result.n_rounds,
        "reason": result.reason,
        **({} if outcome.summary is None else outcome.summary.to_dict()),
    }


def _kept(result: Result) -> dict[str, Any]:
    """Return what a rewired graph has kept and found."""
    if result.kept is None:
        return {}
    sizes = [len(cluster) for cluster in result.clusters]
    return {"kept_edges": result.kept.n_edges, "clusters": sizes}


def _lines(inputs: Inputs, outcome: Outcome) -> Any:
    """Return the lines of ``nodes.csv``; without test rows there are no errors in it."""
    lines = _plain_lines(inputs, outcome.summary)
    clusters = outcome.fitted.result_.clusters
    if clusters:
        number = {label: k for k, cluster in enumerate(clusters, start=1) for label in cluster}
        lines["cluster"] = [number[label] for label in lines["node"]]
    return lines


def _plain_lines(inputs: Inputs, summary: Summary | None) -> Any:
    import pandas as pd

    if summary is not None:
        return summary.nodes.rename(columns={"gain": "gain_percent"})
    labels = list(inputs.model_names)
    counts = {label: int((inputs.nodes == label).sum()) for label in labels}
    kinds = [short_name(name) for name in inputs.model_names.values()]
    return pd.DataFrame({"node": labels, "model": kinds, "rows": list(counts.values())})


def _write_views(draft: Path, outcome: Outcome, talk: Talk) -> None:
    """Write the picture and the report, or say what brings them."""
    missing = {}
    if outcome.summary is not None:
        try:
            from fedrelax.report.picture import save_picture

            fitted = outcome.fitted
            save_picture(draft / "result.png", outcome.summary, fitted.history_, fitted.graph_)
        except ImportError:
            missing["result.png"] = "matplotlib"
    if find_spec("plotly") is None:
        missing[REPORT] = "plotly"
    else:
        write_report(draft)
    if missing:
        talk.note(
            f"no {' and no '.join(missing)} without {' and '.join(missing.values())}; "
            "pip install 'fedrelax[report]' brings what is missing."
        )
