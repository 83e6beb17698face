"""What ``fit`` and ``resume`` do: read, train, save, and say how it went."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path

from fedrelax.cli.console import Talk
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.inputs import read_inputs
from fedrelax.cli.interruption import Interruption
from fedrelax.cli.run_directory import RunDirectory
from fedrelax.cli.training import Outcome, Run
from fedrelax.errors import counted, listing
from fedrelax.extras import need_live
from fedrelax.live import LiveView
from fedrelax.models.names import model_by_name
from fedrelax.report import ReportData
from fedrelax.report.data.report_data import LONGEST_TARGET, USUAL, loss_unit
from fedrelax.report.data.rounding import short
from fedrelax.report.terminal import evaluation_report
from fedrelax.storage.formats import check_savable


def run_fit(config: FitConfig, talk: Talk, checkpoints: RunDirectory | None = None) -> None:
    """Train, save and report; ``checkpoints`` are those of a run that is resumed."""
    if config.live:
        need_live()
    with Interruption().caught() as interruption:
        inputs = read_inputs(config, talk.note)
        for name, label in {name: label for label, name in inputs.model_names.items()}.items():
            # what cannot be saved should not be trained
            check_savable(label, model_by_name(name, inputs.task))
        if checkpoints is None and config.checkpoint_every is not None:
            checkpoints = RunDirectory.begin(config)
        with ExitStack() as stack:
            if checkpoints is not None:
                stack.enter_context(checkpoints.open(interruption))
            view = None
            if config.live:
                unit = loss_unit(USUAL[inputs.task], short(config.target, LONGEST_TARGET))
                view = stack.enter_context(LiveView(inputs.graph, unit=unit, say=talk.address))
            run = Run(inputs, config, talk, interruption, view, checkpoints)
            outcome = run.train()
            rounds = counted(outcome.fitted.n_rounds_, "round")
            used = f"alpha = {outcome.fitted.alpha_:.6g} and {rounds} were used"
            settings = config.to_file(task=inputs.task, features=list(inputs.feature_names))
            data = run.save(outcome, settings, used)
            if view is not None:
                page = config.out.absolute() / "report.html"
                where = f"report at {page}" if page.exists() else f"saved in {page.parent}"
                view.close(f"Finished after {rounds} ({outcome.fitted.result_.reason}): {where}")
        saved = data.saved
        assert saved is not None
        if config.json:
            nodes = [] if data.evaluation is None else saved.nodes.to_dict("records")
            facts = {name: saved.about[name] for name in FACTS}
            answer = {"out": str(config.out), **facts, **saved.metrics}
            talk.json({**answer, "per_node": nodes, "notes": talk.notes})
        else:
            _tell(config, outcome, data, talk)


FACTS = ("task", "feature_names", "alpha", "update", "level", "wiring", "rounds", "reason", "choice",
         "better", "promises")  # fmt: skip
"""The facts of ``result.json`` that ``--json`` prints, beside those of ``metrics.json``."""


def _tell(config: FitConfig, outcome: Outcome, data: ReportData, talk: Talk) -> None:
    assert data.saved is not None
    about, out = data.saved.about, config.out
    talk.say("")
    trained = "trained on all rows, with the settings that were measured"
    if data.evaluation is None:
        talk.plain("All rows were used for training (--test-share 0), so no error was measured.")
        trained = "trained on all rows"
    else:
        talk.say(evaluation_report(data))
        if not outcome.on_all_rows:
            trained = "those that were measured, trained on the training rows"
    talk.say("")
    talk.plain(how_it_went(outcome))
    for promise in about["promises"]:
        talk.plain(f"Promised to every node: {promise['says']}.")
    if about["better"] is not None:
        talk.plain(about["better"])
    tell_report(out, talk)
    talk.plain(f"Saved in {out}: {counted(len(data.models), 'model')} ({trained}) and")
    picture = ", result.png" if (out / "result.png").exists() else ""
    talk.plain(f"  metrics.json, nodes.csv, edges.csv, history.csv, config.toml{picture}")
    talk.plain("Next:")
    talk.command(f"fedrelax predict {shlex.quote(str(out))} NEW_ROWS.csv --out predictions.csv")
    talk.command(f"fedrelax info {shlex.quote(str(out))}")


def tell_report(out: Path, talk: Talk) -> None:
    """Say where the report is, if one was written."""
    if (out / "report.html").exists():
        talk.plain(f"Open {out / 'report.html'} in a browser: one file, which you can pass on.")


def how_it_went(outcome: Outcome) -> str:
    """Return which alpha and how many rounds were used, and why, in words."""
    fitted, result, choice = outcome.fitted, outcome.fitted.result_, outcome.fitted.choice_
    if fitted.default_ is None and choice is not None and choice.alpha == 0:
        return "No coupling was chosen: alone was best in cross-validation on the training rows."
    wired = ""
    if result.kept is not None:
        before, after = result.graph.n_edges, result.kept.n_edges
        sizes = [len(cluster) for cluster in result.clusters]
        shown = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        edges = f"kept {after:,} of {before:,}" if before >= after else f"found {after:,}"
        groups = f"{counted(len(sizes), 'group')} of {shown} nodes"
        wired = f" The nodes {edges} edges, which form {groups} (edges.csv, nodes.csv)."
    if result.stayed:
        alone = listing(result.stayed, most=5)
        wired += f" These validated clearly better alone and keep their own models: {alone}."
    if fitted.default_ is not None and choice is not None:
        return f"Found from the training rows: {choice.reason}.{wired}"
    used = f"Used alpha {fitted.alpha_:.3g} and {counted(result.n_rounds, 'round')}"
    if choice is not None:
        return f"{used}, chosen by cross-validation on the training rows only.{wired}"
    return f"{used} ({result.reason}).{wired}"
