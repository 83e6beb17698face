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
from fedrelax.cli.interruption import (
    ALL_ROWS,
    CAUSES,
    SAVING,
    WORKING,
    Interruption,
    Watch,
    start_workers,
)
from fedrelax.cli.run_directory import RunDirectory
from fedrelax.errors import FedRelaxError
from fedrelax.evaluation import Evaluation, evaluate
from fedrelax.live import LiveView
from fedrelax.live.callback import STOPPED as STOPPED_LIVE
from fedrelax.models.names import kind_name, short_name
from fedrelax.privacy import PrivateStatistics
from fedrelax.report import ReportData, report_data
from fedrelax.report.page import write_report
from fedrelax.solvers import FedRelax
from fedrelax.storage import read_result, save_result
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

    @property
    def interrupted(self) -> bool:
        """Whether a signal or the live page ended the rounds."""
        return self.fitted.result_.reason in (*CAUSES.values(), STOPPED_LIVE)


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
        inputs, config, talk, interruption = self.inputs, self.config, self.talk, self.interruption
        checkpoint = None if self.checkpoints is None else self.checkpoints.training
        estimator = inputs.estimator(config, inputs.train)
        if config.epsilon is not None:
            # without a seed: whoever knew it could subtract the noise
            noise = PrivateStatistics(
                epsilon=config.epsilon,
                delta=1e-5 if config.delta is None else config.delta,
                range=config.range,
                random_state=None,
            )
            private = FedRelax(update=config.update, exchange=[noise], tol=0.0)
            estimator.set_params(solver=private)
        start_workers(config.jobs, config.backend)
        talk.activity.doing("Choosing settings")
        callbacks = [Watch(talk.activity, interruption), self.view, checkpoint]
        estimator.set_params(callbacks=[one for one in callbacks if one is not None], **more)
        interruption.enter(WORKING, checkpoint)
        X, y, nodes = inputs.rows(inputs.train)
        folds = inputs.splitting.folds(inputs.train)
        fitted: Fitted = estimator.fit(X, y, nodes=nodes, **folds).set_params(callbacks=())
        interruption.enter(WORKING if checkpoint is None else "")
        outcome = Outcome(fitted)
        if outcome.interrupted:
            reason = fitted.result_.reason
            talk.note(f"{reason} after round {fitted.n_rounds_}; its models are kept.")
        if self.view is not None:
            self.view.tell("The rounds are done; measuring and saving.", 1, 1)
        if inputs.train.all():
            return outcome
        outcome = Outcome(fitted, self._measured(fitted), on_all_rows=False)
        if config.keep_test_out or config.epsilon is not None or outcome.interrupted:
            return outcome
        interruption.take()
        if not interruption.cause:
            try:
                return self._on_all_rows(outcome)
            except KeyboardInterrupt:
                if checkpoint is not None:
                    raise
                interruption.take()
        talk.note(
            f"{interruption.cause}, so there is no second training on all rows: the models that were "
            "measured, trained on the training rows, are kept."
        )
        return outcome

    def _measured(self, fitted: Fitted) -> Evaluation:
        self.talk.activity.doing("Measuring on test rows")
        inputs = self.inputs
        measured = evaluate(fitted, inputs.rows(inputs.train), inputs.rows(inputs.test))
        labels = list(measured.nodes["node"])
        nodes = measured.nodes.assign(model=self._lines(fitted, labels)["model"])
        return replace(measured, nodes=nodes)

    def _on_all_rows(self, outcome: Outcome) -> Outcome:
        """Train again on all rows, with the settings that were measured."""
        fitted, measured, inputs = outcome.fitted, outcome.evaluation, self.inputs
        assert measured is not None
        checkpoint = None if self.checkpoints is None else self.checkpoints.all_rows
        self.interruption.enter(checkpoint=checkpoint)
        activity = self.talk.activity
        activity.doing(f"Training on {ALL_ROWS}, with these settings")
        callbacks = [Watch(activity, self.interruption, ALL_ROWS), checkpoint]
        fitted.set_params(callbacks=[one for one in callbacks if one is not None])
        try:
            final = fitted.refitted(inputs.X, inputs.y, inputs.nodes)
        finally:
            fitted.set_params(callbacks=())
        tested = set(measured.nodes["node"])
        untested = self._lines(final, [label for label in final.models_ if label not in tested])
        return Outcome(final.set_params(callbacks=()), measured.with_untested(untested))

    def _lines(self, fitted: Fitted, labels: list[Label]) -> DataFrame:
        """Return a table of nodes and their models' names: as given, or what "auto" has found."""
        import pandas as pd

        models, names = fitted.result_.models, self.inputs.model_names
        kinds = [
            kind_name(models[label]) if names[label] == "auto" else short_name(names[label])
            for label in labels
        ]
        return pd.DataFrame({"node": labels, "model": kinds})

    def save(
        self,
        outcome: Outcome,
        settings: Mapping[str, Any],
        comment: str,
        more: Sequence[Callable[[Path], None]] = (),
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
