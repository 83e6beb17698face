"""Train, measure and save: what ``fit`` and ``demo`` have in common."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedrelax.cli import interruption
from fedrelax.cli.console import Talk
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.inputs import Inputs
from fedrelax.cli.interruption import ALL_ROWS, SAVING, WORKING, Interruption, Watch
from fedrelax.cli.run_directory import RunDirectory
from fedrelax.errors import FedRelaxError
from fedrelax.evaluation import Evaluation, evaluate
from fedrelax.live import LiveView
from fedrelax.live.callback import STOPPED
from fedrelax.models.names import kind_name, short_name
from fedrelax.privacy import PrivateStatistics
from fedrelax.report import ReportData, report_data
from fedrelax.report.page import write_report
from fedrelax.runtime import Callback
from fedrelax.solvers import FedRelax
from fedrelax.storage import Checkpoint, read_result, save_result
from fedrelax.storage.places import NotWritten
from fedrelax.storage.saving import Fitted
from fedrelax.typing import DataFrame, Label


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained network, and its errors, if they were measured."""

    fitted: Fitted
    evaluation: Evaluation | None = None
    on_all_rows: bool = True
    """Whether the models were trained again on all rows, after measuring."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run of ``fit`` or ``demo``: its inputs and settings, and who watches, stops and keeps it."""

    inputs: Inputs
    config: FitConfig
    talk: Talk
    interruption: Interruption
    view: LiveView | None = None
    checkpoints: RunDirectory | None = None
    """Where the state of the run is kept, if it can be resumed."""

    def train(self, **more: Any) -> Outcome:
        """Choose on the training rows what is "auto", run the rounds, measure on test rows, train on all.

        Once a signal has ended a step early, the models that were measured are the outcome. ``more``
        holds arguments of the estimator that have no flag.
        """
        inputs, config, talk, stopping = self.inputs, self.config, self.talk, self.interruption
        checkpoint = None if self.checkpoints is None else self.checkpoints.training
        if config.epsilon is not None:
            # without a seed: whoever knew it could subtract the noise
            noise = PrivateStatistics(
                epsilon=config.epsilon,
                delta=1e-5 if config.delta is None else config.delta,
                range=config.range,
                random_state=None,
            )
            more["solver"] = FedRelax(update=config.update, exchange=[noise], tol=0.0)
        estimator = inputs.estimator(config, inputs.train)
        interruption.start_workers(config.jobs, config.backend)
        talk.activity.doing("Choosing settings")
        callbacks = self._callbacks("training rows", checkpoint, self.view)
        stopping.enter(WORKING, checkpoint)
        X, y, nodes = inputs.rows(inputs.train)
        estimator.set_params(callbacks=callbacks, **more)
        fitted: Fitted = estimator.fit(X, y, nodes=nodes, **inputs.splitting.folds(inputs.train))
        fitted.set_params(callbacks=())
        stopping.enter(WORKING if checkpoint is None else "")
        reason = fitted.result_.reason
        if interrupted := reason in (*interruption.CAUSES.values(), STOPPED):
            talk.note(f"{reason} after round {fitted.n_rounds_}; its models are kept.")
        if self.view is not None:
            self.view.tell("The rounds are done; measuring and saving.", 1, 1)
        if inputs.train.all():
            return Outcome(fitted)
        talk.activity.doing("Measuring on test rows")
        measured = evaluate(fitted, inputs.rows(inputs.train), inputs.rows(inputs.test))
        lines = self._lines(fitted, measured.nodes["node"])
        measured = replace(measured, nodes=measured.nodes.assign(model=lines["model"]))
        outcome = Outcome(fitted, measured, on_all_rows=False)
        if config.keep_test_out or config.epsilon is not None or interrupted:
            return outcome
        stopping.take()
        if not stopping.cause:
            try:
                return self._on_all_rows(fitted, measured)
            except KeyboardInterrupt:
                if checkpoint is not None:
                    raise
                stopping.take()
        talk.note(
            f"{stopping.cause}, so there is no second training on all rows: the models that were "
            "measured, trained on the training rows, are kept."
        )
        return outcome

    def _callbacks(
        self, where: str, checkpoint: Checkpoint | None, view: LiveView | None = None
    ) -> list[Callback]:
        watch = Watch(self.talk.activity, self.interruption, where)
        return [one for one in (watch, view, checkpoint) if one is not None]

    def _on_all_rows(self, fitted: Fitted, measured: Evaluation) -> Outcome:
        """Train again on all rows, with the settings that were measured."""
        inputs = self.inputs
        checkpoint = None if self.checkpoints is None else self.checkpoints.all_rows
        self.interruption.enter(checkpoint=checkpoint)
        self.talk.activity.doing(f"Training on {ALL_ROWS}, with these settings")
        fitted.set_params(callbacks=self._callbacks(ALL_ROWS, checkpoint))
        try:
            final = fitted.refitted(inputs.X, inputs.y, inputs.nodes)
        finally:
            fitted.set_params(callbacks=())
        tested = set(measured.nodes["node"])
        untested = self._lines(final, [label for label in final.models_ if label not in tested])
        return Outcome(final.set_params(callbacks=()), measured.with_untested(untested))

    def _lines(self, fitted: Fitted, labels: Iterable[Label]) -> DataFrame:
        """Return a table of nodes and their models' names: as given, or what "auto" has found."""
        import pandas as pd

        models, names, labels = fitted.result_.models, self.inputs.model_names, list(labels)
        auto = {label for label in labels if names[label] == "auto"}
        kinds = [kind_name(models[k]) if k in auto else short_name(names[k]) for k in labels]
        return pd.DataFrame({"node": labels, "model": kinds})

    def save(
        self,
        outcome: Outcome,
        settings: Mapping[str, Any],
        comment: str,
        *more: Callable[[Path], None],
    ) -> ReportData:
        """Write the directory and return what it shows; ``settings`` go to ``config.toml``.

        If the directory cannot be written, the result is saved among the temporary files, and the error
        says where.
        """
        inputs, config, result = self.inputs, self.config, outcome.fitted.result_
        self.interruption.enter(SAVING)
        self.talk.activity.doing(f"Saving in {config.out}")
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
        if outcome.evaluation is None:
            labels = list(inputs.model_names)
            rows = [int((inputs.nodes == label).sum()) for label in labels]
            lines = self._lines(outcome.fitted, labels).assign(rows=rows)
        shown: list[ReportData] = []

        def write(where: Path) -> None:
            save_result(
                where,
                outcome.fitted,
                nodes=lines,
                metrics=metrics,
                evaluation=outcome.evaluation,
                config=settings,
                comment=comment,
                feature_names=inputs.feature_names,
                node_column=config.node,
                target=config.target,
                overwrite=config.overwrite,
                more=[*more, lambda draft: shown.append(_write_views(draft, self.talk))],
            )

        try:
            write(config.out)
        except NotWritten as error:
            home = Path(tempfile.mkdtemp(prefix="fedrelax-"))
            instead = home / (config.out.name or "result")
            try:
                write(instead)
            except FedRelaxError:
                shutil.rmtree(home, ignore_errors=True)
                raise error from error.__cause__
            raise NotWritten(f"{error}; the result was saved in {instead} instead") from None
        self.interruption.ignore()
        return shown[-1]


def _write_views(draft: Path, talk: Talk) -> ReportData:
    """Write the picture and the report of a draft, or say what to install; return its data."""
    saved = read_result(draft)
    data = report_data(saved)
    talk.activity.doing("Writing the report")
    if data.evaluation is not None and find_spec("matplotlib") is not None:
        from fedrelax.report.plots import save_result_picture

        save_result_picture(draft / "result.png", data)
    if find_spec("plotly") is not None:
        write_report(data)
    else:
        talk.note("no report.html without plotly; pip install 'fedrelax[report]' adds it.")
    return data
