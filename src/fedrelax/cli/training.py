"""Train, measure and save: what ``fit`` and ``demo`` have in common."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from fedrelax.cli.console import Talk
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.formulas import formula_note
from fedrelax.cli.inputs import Inputs
from fedrelax.cli.interruption import CAUSES, Interruption, Step
from fedrelax.cli.privacy import private_solver, with_leakage
from fedrelax.cli.progress import ALL_ROWS, Watch, start_workers
from fedrelax.cli.settings import LearningConfig
from fedrelax.cli.stopping import RunDirectory
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import Evaluation, evaluate
from fedrelax.live import LiveView
from fedrelax.live.callback import STOPPED as STOPPED_LIVE
from fedrelax.models.names import kind_name, short_name
from fedrelax.report import ReportData, report_data
from fedrelax.report.page import REPORT, write_report
from fedrelax.selection import Choice
from fedrelax.solvers import Result
from fedrelax.storage import Checkpoint, save_result
from fedrelax.storage.places import NotWritten
from fedrelax.storage.saving import Fitted
from fedrelax.typing import Label
from fedrelax.wiring import wiring_name


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained network, and its errors, if they were measured."""

    fitted: Fitted
    evaluation: Evaluation | None = None
    on_all_rows: bool = True
    """Whether the models were trained again on all rows, after measuring."""

    @property
    def data(self) -> ReportData:
        """What the report shows."""
        return report_data(self.fitted.result_, self.evaluation, self.fitted.choice_)

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
    estimator = estimator_of(inputs, config).set_params(solver=private_solver(config))
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
    measured = _measure(fitted, rows, inputs)
    if config.leakage:
        talk.activity.doing("Attacking the exchanged predictions")
        measured = with_leakage(measured, fitted, inputs, config)
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
    measured = measured.with_untested(_new_lines(inputs, final, measured))
    return Outcome(final.set_params(callbacks=()), measured)


def _new_lines(inputs: Inputs, final: Fitted, measured: Evaluation) -> Any:
    """Return lines for nodes that have a model of all rows but had none to measure."""
    import pandas as pd

    known = set(measured.nodes["node"])
    new = [label for label in final.models_ if label not in known]
    return pd.DataFrame({"node": new, "model": _kinds(inputs, final, new)})


def _measure(fitted: Fitted, rows: tuple[Any, Any, Any], inputs: Inputs) -> Evaluation:
    test = inputs.test
    held = (inputs.X[test], inputs.y[test], inputs.nodes[test])
    found = evaluate(fitted, rows, held)
    return replace(
        found, nodes=found.nodes.assign(model=_kinds(inputs, fitted, found.nodes["node"]))
    )


def _kinds(inputs: Inputs, fitted: Fitted, labels: Iterable[Label]) -> list[str]:
    """Return the names of the nodes' models for tables: as given, or what "auto" has found."""
    models, names = fitted.result_.models, inputs.model_names
    return [
        kind_name(models[label]) if names[label] == "auto" else short_name(names[label])
        for label in labels
    ]


def save(
    inputs: Inputs,
    config: FitConfig,
    outcome: Outcome,
    talk: Talk,
    *,
    settings: Mapping[str, Any],
    comment: str,
    more: Sequence[Callable[[Path], None]] = (),
) -> dict[str, Any]:
    """Write the directory and return the metrics that it holds; ``settings`` go to ``config.toml``.

    If the directory cannot be written, the result is saved among the temporary files, and the error
    says where.
    """
    talk.activity.doing(f"Saving in {config.out}", step="saving")
    metrics = describe(inputs, outcome)
    writers = [*more, lambda draft: _write_views(draft, outcome, talk)]

    def write(where: Path) -> None:
        save_result(
            where,
            outcome.fitted,
            nodes=None if outcome.evaluation is not None else _lines(inputs, outcome.fitted),
            metrics=metrics,
            evaluation=outcome.evaluation,
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
        _rescue(error, config.out.name, write)
    return metrics


def _rescue(error: NotWritten, name: str, write: Callable[[Path], None]) -> NoReturn:
    """Save among the temporary files what could not be written to ``--out``."""
    home = Path(tempfile.mkdtemp(prefix="fedrelax-"))
    try:
        write(home / (name or "result"))
    except FedRelaxError:
        shutil.rmtree(home, ignore_errors=True)
        raise error from error.__cause__
    raise NotWritten(f"{error}; the result was saved in {home / (name or 'result')} instead")


def describe(inputs: Inputs, outcome: Outcome) -> dict[str, Any]:
    """Return the numbers of a run for ``metrics.json`` and ``--json``."""
    result, choice = outcome.fitted.result_, outcome.fitted.choice_
    return {
        "task": inputs.task,
        "nodes": len(result.local_models),
        "edges": outcome.fitted.whole_graph_.n_edges,
        "training_rows": int(inputs.train.sum()),
        "split_by": inputs.splitting.column,
        "saved_models_trained_on": "all rows" if outcome.on_all_rows else "training rows",
        "features": list(inputs.feature_names),
        "alpha": outcome.fitted.alpha_,
        "alpha_was_chosen": choice is not None,
        "level": outcome.fitted.level_,
        "wiring": wiring_name(outcome.fitted.wiring_),
        **_kept(result),
        "stayed_alone": list(result.stayed),
        "rounds": result.n_rounds,
        "reason": result.reason,
        **_found(choice),
        "promises": [asdict(promise) for promise in result.promises],
        **({} if outcome.evaluation is None else outcome.evaluation.to_dict()),
    }


def _found(choice: Choice | None) -> dict[str, Any]:
    """Return how the settings were chosen, and what would be better with all rows in one place."""
    if choice is None:
        return {}
    better = {} if choice.better is None else {"would_be_better": choice.better}
    return {"chosen": choice.reason, **better}


def _kept(result: Result) -> dict[str, Any]:
    """Return how many edges a rewired graph has kept, and the sizes of its clusters."""
    if result.kept is None:
        return {}
    sizes = [len(cluster) for cluster in result.clusters]
    return {"kept_edges": result.kept.n_edges, "clusters": sizes}


def _lines(inputs: Inputs, fitted: Fitted) -> Any:
    """Return the lines of ``nodes.csv`` where nothing was measured."""
    import pandas as pd

    labels = list(inputs.model_names)
    rows = [int((inputs.nodes == label).sum()) for label in labels]
    kinds = _kinds(inputs, fitted, labels)
    return pd.DataFrame({"node": labels, "model": kinds, "rows": rows})


def _write_views(draft: Path, outcome: Outcome, talk: Talk) -> None:
    """Write the picture and the report, or say what to install for them."""
    import pandas as pd

    formulas = formula_note(pd.DataFrame({"node": list(outcome.fitted.models_)}), "nodes.csv")
    if formulas is not None:
        talk.note(formulas)
    talk.activity.doing("Writing the report")
    missing = {}
    if outcome.evaluation is not None:
        try:
            from fedrelax.report.plots import save_result_picture

            save_result_picture(draft / "result.png", outcome.data)
        except ImportError:
            missing["result.png"] = "matplotlib"
    if find_spec("plotly") is None:
        missing[REPORT] = "plotly"
    else:
        write_report(draft)
    if missing:
        talk.note(
            f"no {' and no '.join(missing)} without {' and '.join(missing.values())}; "
            "pip install 'fedrelax[report]' adds what is missing."
        )
