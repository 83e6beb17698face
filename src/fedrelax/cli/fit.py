"""``fedrelax fit`` and ``resume``: from a table to one model per node."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator, Field

from fedrelax.cli.config import command, command_with
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import DATA, LEARNING, OUTPUT, Dir, TrustModel, flag, option_of
from fedrelax.cli.settings import LearningConfig, parts_of
from fedrelax.errors import FedRelaxError, counted, listing

if TYPE_CHECKING:
    from fedrelax.cli.run_directory import RunDirectory
    from fedrelax.cli.training import Outcome
    from fedrelax.report import ReportData


@dataclass(frozen=True, kw_only=True)
class FitConfig(LearningConfig):
    """All settings of ``fedrelax fit``.

    out : Directory to write, completely or not at all.
    test_from : Test on all rows from this time on, by the column of --split-by or the only date column.
    keep_test_out : Save the models that were measured, trained without the test rows. Default: after
        measuring, train again on all rows with the same settings, and save those models.
    checkpoint_every : Save a checkpoint next to --out every N rounds, and when the run is stopped by
        Ctrl-C or SIGTERM; fedrelax resume continues from it.
    epsilon : Differential privacy for each row of a node: noise on the sums over its rows, released
        once. Implies --keep-test-out. Default: no noise.
    delta : Probability with which the promise of --epsilon may fail. Default: 1e-5.
    range : Smallest and largest possible target, for --epsilon: known beforehand, not taken from the
        rows. Not needed for classes.
    live : Show the run on a web page of this machine while it lasts; the address is printed.
    """

    command: ClassVar[str] = "fit"
    out: Path = flag(OUTPUT, needed="the directory to write", saved=False)
    test_from: str | None = flag(DATA, metavar="DATE")
    keep_test_out: bool = flag(OUTPUT, default=False)
    checkpoint_every: Annotated[int | None, Field(ge=1)] = flag(OUTPUT, metavar="N", saved=False)
    epsilon: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = flag(LEARNING)
    delta: Annotated[float | None, Field(gt=0, lt=1)] = flag(LEARNING)
    range: Annotated[tuple[float, float] | None, BeforeValidator(parts_of)] = flag(
        LEARNING, metavar="LOW,HIGH"
    )
    live: bool = flag(OUTPUT, default=False, saved=False)


@command_with(FitConfig)
def fit(config: FitConfig, talk: Talk) -> None:
    """Train one model per node and say whether learning together helped.

    A share of each node's rows is held out for testing. On these, three ways are compared: each node
    alone, one pooled model, and together over the graph. The saved models are then trained on all
    rows, with the settings that were measured.

    [bold]Example:[/bold] fedrelax fit weather.csv --node station --target temp
    --graph knn:lat,lon:5 --model-for Helsinki=forest --out result
    """
    from fedrelax.storage.places import check_directory

    check_directory(config.out, config.overwrite)
    check_privacy(config)
    run_fit(config, talk)


def check_privacy(config: FitConfig) -> None:
    """Refuse flags that would reveal more about the rows than is promised."""
    from fedrelax.public import DRAWS

    name = (
        "needs --model with a name: auto finds its settings from sums over the rows, without noise"
    )
    private, draw, by_itself = config.epsilon is not None, config.public, config.model == "auto"
    refused = {
        "--delta needs --epsilon, which is not given": not private and config.delta is not None,
        "--range needs --epsilon, which is not given": not private and config.range is not None,
        f"--epsilon {name}": private and by_itself,
        "--epsilon needs --alpha as a number: every trial to choose it would reveal the rows once more": (
            private and config.alpha == "auto"
        ),
        f"--wiring {config.wiring} looks at rows without noise; with --epsilon use --wiring fixed": (
            private and config.wiring not in (None, "fixed")
        ),
        f"--public {draw} draws public rows from the inputs, which --epsilon does not cover; give a "
        "table of rows that may be seen, or --public standard": (
            private and draw in DRAWS and draw != "standard"
        ),
    }
    for sentence, holds in refused.items():
        if holds:
            raise FedRelaxError(sentence)


@command
def resume(
    talk: Talk,
    directory: Dir,
    *,
    trust: TrustModel = None,
    overwrite: Annotated[bool | None, option_of(FitConfig, "overwrite")] = None,
    backend: Annotated[str | None, option_of(FitConfig, "backend")] = None,
    address: Annotated[str | None, option_of(FitConfig, "address")] = None,
) -> None:
    """Continue a run that was stopped, as if nothing had happened.

    It needs only DIR, which holds settings and seeds, and the table in its old place. The result goes to
    the --out of the first command, and is that of a run that was never stopped, to the last digit.
    --trust, --overwrite, --backend and --address have to be typed again: DIR may come from elsewhere.

    [bold]Example:[/bold] fedrelax resume result.checkpoint

    directory : Checkpoint of fedrelax fit --checkpoint-every.
    """
    from fedrelax.cli.run_directory import RunDirectory
    from fedrelax.runtime.workers import using_backend
    from fedrelax.storage.places import check_directory

    stopped, config = RunDirectory.find(
        directory, trust or (), overwrite=overwrite, backend=backend, address=address
    )
    talk.out.quiet = config.json
    check_directory(config.out, config.overwrite)
    with using_backend(config.backend, config.address):
        run_fit(config, talk, stopped)


def run_fit(config: FitConfig, talk: Talk, checkpoints: RunDirectory | None = None) -> None:
    """Train, save and report; ``checkpoints`` are those of a run that is resumed."""
    talk.activity.doing(f"Reading {config.data.name}")
    from fedrelax.cli.inputs import read_inputs
    from fedrelax.cli.interruption import Interruption
    from fedrelax.cli.run_directory import RunDirectory
    from fedrelax.cli.training import Run
    from fedrelax.live import LiveView
    from fedrelax.models.names import model_by_name
    from fedrelax.report.data.report_data import USUAL, loss_unit
    from fedrelax.report.data.rounding import short
    from fedrelax.storage.formats import check_savable
    from fedrelax.web import check_live

    if config.live:
        check_live()
    with Interruption().caught() as interruption:
        inputs = read_inputs(config, talk.note)
        for name, label in {name: label for label, name in inputs.model_names.items()}.items():
            # what cannot be saved should not be trained
            check_savable(label, model_by_name(name, inputs.task))
        unit = loss_unit(USUAL[inputs.task], short(config.target, 28))
        if checkpoints is None and config.checkpoint_every is not None:
            checkpoints = RunDirectory.begin(config)
        with (
            nullcontext() if checkpoints is None else checkpoints.open(interruption),
            (
                LiveView(inputs.graph, unit=unit, say=talk.address)
                if config.live
                else nullcontext()
            ) as view,
        ):
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
    from fedrelax.report.terminal import evaluation_report

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
