"""Train, measure and save: what ``fit`` and ``demo`` have in common."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedrelax.cli.console import Talk
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.inputs import Inputs
from fedrelax.cli.interruption import ALL_ROWS, CAUSES, Interruption, Step, Watch, start_workers
from fedrelax.cli.predict import formula_note
from fedrelax.cli.run_directory import RunDirectory
from fedrelax.cli.settings import LearningConfig
from fedrelax.errors import FedRelaxError, counted
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import Evaluation, evaluate
from fedrelax.live import LiveView
from fedrelax.live.callback import STOPPED as STOPPED_LIVE
from fedrelax.models.names import kind_name, short_name
from fedrelax.report import ReportData, report_data
from fedrelax.report.data.report_data import USUAL, loss_unit
from fedrelax.report.data.rounding import short
from fedrelax.report.page import REPORT, write_report
from fedrelax.runtime import Layer
from fedrelax.solvers import FedRelax, Result
from fedrelax.splits import group_rows
from fedrelax.storage import Checkpoint, read_result, save_result
from fedrelax.storage.places import NotWritten
from fedrelax.storage.saving import Fitted
from fedrelax.typing import Label


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained network, and its errors, if they were measured."""

    fitted: Fitted
    evaluation: Evaluation | None = None
    on_all_rows: bool = True
    """Whether the models were trained again on all rows, after measuring."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal or the live page ended the rounds."""
        return self.fitted.result_.reason in (*CAUSES.values(), STOPPED_LIVE)


def estimator_of(inputs: Inputs, config: LearningConfig) -> Fitted:
    """Return the estimator for the inputs, not yet fitted."""
    kind = FedRelaxRegressor if inputs.task == "regression" else FedRelaxClassifier
    everywhere = set(inputs.model_names.values())
    return kind(
        "auto" if everywhere == {"auto"} else inputs.models,
        graph=inputs.graph,
        public=inputs.public,
        schema=inputs.schema,
        solver=None if config.update == "refit" else FedRelax(update=config.update),
        **config.estimator_arguments(),
    )


def train(
    inputs: Inputs,
    config: FitConfig,
    talk: Talk,
    interruption: Interruption,
    *,
    view: LiveView | None = None,
    kept: RunDirectory | None = None,
    **more: Any,
) -> Outcome:
    """Choose on the training rows what is "auto", run the rounds, measure on test rows, train on all.

    Once a signal has ended a step early, the models that were measured are the outcome. ``kept`` is
    where the state of the run is kept; ``more`` holds arguments of the estimator that have no flag.
    """
    estimator = estimator_of(inputs, config)
    if config.epsilon is not None:
        private = FedRelax(update=config.update, exchange=private_layers(config), tol=0.0)
        estimator.set_params(solver=private)
    own = inputs.train
    rows = (inputs.X[own], inputs.y[own], inputs.nodes[own])
    start_workers(config.jobs, config.backend)
    talk.activity.doing("Choosing settings", step="choosing")
    first, second = (None, None) if kept is None else (kept.training, kept.all_rows)
    watch = Watch(talk.activity, interruption)
    callbacks = [one for one in (watch, view, first) if one is not None]
    estimator.set_params(callbacks=callbacks, **more)
    interruption.enter(Step.FINDING, first)
    folds = inputs.splitting.folds(own)
    fitted: Fitted = estimator.fit(*rows[:2], nodes=rows[2], **folds)
    interruption.enter(Step.MEASURING, first)
    outcome = Outcome(fitted.set_params(callbacks=()))
    if outcome.interrupted:
        reason = fitted.result_.reason
        talk.note(f"{reason} after round {fitted.n_rounds_}; its models are kept.")
    if view is not None:
        view.tell("The rounds are done; measuring and saving.", 1, 1)
    if own.all():
        return outcome
    talk.activity.doing("Measuring on test rows", step="measuring")
    test = inputs.test
    measured = evaluate(fitted, rows, (inputs.X[test], inputs.y[test], inputs.nodes[test]))
    nodes = measured.nodes.assign(
        model=_lines(inputs, fitted, list(measured.nodes["node"]))["model"]
    )
    if config.leakage:
        talk.activity.doing("Attacking the exchanged predictions")
        found = aucs(fitted, inputs, config)
        nodes = nodes.assign(leaked=[found.get(label) for label in nodes["node"]])
    measured = replace(measured, nodes=nodes)
    outcome = Outcome(fitted, measured, on_all_rows=False)
    if config.keep_test_out or config.epsilon is not None or outcome.interrupted:
        return outcome
    try:
        if not interruption.take() and not interruption.cause:
            interruption.enter(Step.ALL_ROWS, second)
            return _on_all_rows(inputs, outcome, talk, interruption, second)
    except KeyboardInterrupt:
        if not interruption.cause:
            raise
    talk.note(
        f"{interruption.cause}, so there is no second training on all rows: the models that were measured, "
        "trained on the training rows, are kept."
    )
    return outcome


def _on_all_rows(
    inputs: Inputs,
    outcome: Outcome,
    talk: Talk,
    interruption: Interruption,
    checkpoint: Checkpoint | None,
) -> Outcome:
    """Train again on all rows, with the settings that were measured."""
    fitted, measured = outcome.fitted, outcome.evaluation
    assert measured is not None
    talk.activity.doing(f"Training on {ALL_ROWS}, with these settings", step=ALL_ROWS)
    watch = Watch(talk.activity, interruption, ALL_ROWS)
    fitted.set_params(callbacks=[one for one in (watch, checkpoint) if one is not None])
    try:
        final = fitted.refitted(inputs.X, inputs.y, inputs.nodes)
    finally:
        fitted.set_params(callbacks=())
    known = set(measured.nodes["node"])
    new = [label for label in final.models_ if label not in known]
    measured = measured.with_untested(_lines(inputs, final, new))
    return Outcome(final.set_params(callbacks=()), measured)


def save(
    inputs: Inputs,
    config: FitConfig,
    outcome: Outcome,
    talk: Talk,
    *,
    settings: Mapping[str, Any],
    comment: str,
    more: Sequence[Callable[[Path], None]] = (),
) -> ReportData:
    """Write the directory and return what it shows; ``settings`` go to ``config.toml``.

    If the directory cannot be written, the result is saved among the temporary files, and the error
    says where.
    """
    talk.activity.doing(f"Saving in {config.out}", step="saving")
    found, result = outcome.evaluation, outcome.fitted.result_
    metrics: dict[str, Any] = {
        "nodes": len(result.local_models),
        "edges": outcome.fitted.whole_graph_.n_edges,
        "training_rows": int(inputs.train.sum()),
        "split_by": inputs.splitting.column,
        "saved_models_trained_on": "all rows" if outcome.on_all_rows else "training rows",
        "stayed_alone": list(result.stayed),
    }
    if result.kept is not None:
        sizes = [len(cluster) for cluster in result.clusters]
        metrics |= {"kept_edges": result.kept.n_edges, "clusters": sizes}
    lines = None
    if found is None:
        labels = list(inputs.model_names)
        rows = [int((inputs.nodes == label).sum()) for label in labels]
        lines = _lines(inputs, outcome.fitted, labels).assign(rows=rows)
    shown: list[ReportData] = []
    writers = [*more, lambda draft: shown.append(_write_views(draft, talk))]

    def write(where: Path) -> None:
        save_result(
            where,
            outcome.fitted,
            nodes=lines,
            metrics=metrics,
            evaluation=found,
            config=settings,
            comment=comment,
            feature_names=inputs.feature_names,
            node_column=config.node,
            target=config.target,
            overwrite=config.overwrite,
            more=writers,
        )

    try:
        write(config.out)
    except NotWritten as error:
        home = Path(tempfile.mkdtemp(prefix="fedrelax-"))
        place = home / (config.out.name or "result")
        try:
            write(place)
        except FedRelaxError:
            shutil.rmtree(home, ignore_errors=True)
            raise error from error.__cause__
        raise NotWritten(f"{error}; the result was saved in {place} instead") from None
    return shown[-1]


def _lines(inputs: Inputs, fitted: Fitted, labels: list[Label]) -> Any:
    """Return a table of nodes and their models' names: as given, or what "auto" has found."""
    import pandas as pd

    models, names = fitted.result_.models, inputs.model_names
    kinds = [
        kind_name(models[label]) if names[label] == "auto" else short_name(names[label])
        for label in labels
    ]
    return pd.DataFrame({"node": labels, "model": kinds})


def _write_views(draft: Path, talk: Talk) -> ReportData:
    """Write the picture and the report of a draft, or say what to install for them; return its data."""
    data = report_data(read_result(draft))
    formulas = formula_note(data.nodes[["node"]], "nodes.csv")
    if formulas is not None:
        talk.note(formulas)
    talk.activity.doing("Writing the report")
    missing = {}
    if data.evaluation is not None:
        try:
            from fedrelax.report.plots import save_result_picture

            save_result_picture(draft / "result.png", data)
        except ImportError:
            missing["result.png"] = "matplotlib"
    if find_spec("plotly") is None:
        missing[REPORT] = "plotly"
    else:
        write_report(data)
    if missing:
        talk.note(
            f"no {' and no '.join(missing)} without {' and '.join(missing.values())}; "
            "pip install 'fedrelax[report]' adds what is missing."
        )
    return data


def live_view(inputs: Inputs, target: str, talk: Talk) -> LiveView:
    """Return the view of a run; its address goes to stderr, as all notes do."""
    nodes = inputs.nodes[inputs.train]
    rows = {label: len(index) for label, index in group_rows(nodes, len(nodes)).items()}
    return LiveView(
        inputs.graph,
        rows=rows,
        models={label: short_name(name) for label, name in inputs.model_names.items()},
        unit=loss_unit(USUAL[inputs.task], short(target, 28)),
        say=lambda text: talk.err.print(text, markup=False, soft_wrap=True),
    )


def tell_end(view: LiveView, out: Path, result: Result) -> None:
    """Say on the page where the result is saved, and stop its server."""
    report = out / REPORT
    where = f"report at {report.absolute()}" if report.exists() else f"saved in {out.absolute()}"
    view.close(f"Finished after {counted(result.n_rounds, 'round')} ({result.reason}): {where}")


def private_layers(config: FitConfig) -> list[Layer]:
    """Return the noise that was asked for, without a seed: whoever knew it could subtract the noise."""
    from fedrelax.privacy import PrivateStatistics

    if config.epsilon is None:
        return []
    delta = 1e-5 if config.delta is None else config.delta
    spread = config.range
    return [PrivateStatistics(epsilon=config.epsilon, delta=delta, range=spread, random_state=None)]


def aucs(fitted: Fitted, inputs: Inputs, config: FitConfig) -> dict[Any, float]:
    """Return the AUC with which a neighbour tells each node's training rows from its test rows."""
    from fedrelax.privacy.leakage import Listener, leakage
    from fedrelax.splits import group_rows
    from fedrelax.wiring import as_wiring

    first = () if inputs.graph is None else inputs.graph.labels
    groups = group_rows(inputs.nodes, len(inputs.nodes))
    groups = groups.arranged(inputs.X, inputs.y, inputs.task, first)
    train = {label: rows[inputs.train[rows]] for label, rows in groups.items()}
    train = {label: rows for label, rows in train.items() if len(rows)}
    held = {label: groups[label][inputs.test[groups[label]]] for label in train}
    X = fitted.common_rows(inputs.X, inputs.nodes)
    network = fitted.network_of(X, inputs.y, train, held, seed=config.seed)
    listener = Listener()
    solver = replace(
        fitted.settings(config.seed),
        alpha=fitted.alpha_,
        level=fitted.level_,
        wiring=as_wiring(fitted.wiring_),
        rounds=fitted.n_rounds_,
        tol=0.0,
        exchange=[*private_layers(config), listener],
    )
    models = solver.solve(network).local_models
    return {
        label: one.by_neighbour for label, one in leakage(network, listener.heard, models).items()
    }
