"""``fedrelax fit``: from a table to one model per node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fedrelax.cli.config import command_with
from fedrelax.cli.console import Talk
from fedrelax.cli.options import DATA, LEARNING, OUTPUT, Check, Flag
from fedrelax.cli.settings import LearningConfig, two_numbers
from fedrelax.errors import counted, listing


@dataclass(frozen=True, kw_only=True)
class FitConfig(LearningConfig):
    """All settings of ``fedrelax fit``."""

    command: ClassVar[str] = "fit"
    steps: ClassVar[Mapping[str, float]] = {
        "reading": 0.5,
        "choosing": 4.0,
        "training rows": 0.5,
        "measuring": 0.5,
        "all rows": 0.5,
        "saving": 2.0,
    }

    out: Annotated[
        Path,
        Flag(
            OUTPUT,
            "Directory to write, completely or not at all.",
            before="overwrite",
            needed="the directory to write",
            saved=False,
        ),
    ]
    test_from: Annotated[
        str | None,
        Flag(
            DATA,
            "Test on all rows from this time on, by the column of --split-by or the only date column.",
            metavar="DATE",
        ),
    ] = None
    keep_test_out: Annotated[
        bool,
        Flag(
            OUTPUT,
            "Save the models that were measured, trained without the test rows. Default: after "
            "measuring, train again on all rows with the same settings, and save those models.",
            spelling="--keep-test-out",
            before="jobs",
        ),
    ] = False
    checkpoint_every: Annotated[
        int | None,
        Check(ge=1),
        Flag(
            OUTPUT,
            "Save a checkpoint next to --out every N rounds, and when the run is stopped by Ctrl-C or "
            "SIGTERM; fedrelax resume continues from it.",
            metavar="N",
            before="jobs",
            saved=False,
        ),
    ] = None
    epsilon: Annotated[
        float | None,
        Check(gt=0, allow_inf_nan=False),
        Flag(
            LEARNING,
            "Differential privacy for each row of a node: noise on the sums over its rows, released "
            "once. Implies --keep-test-out. Default: no noise.",
        ),
    ] = None
    delta: Annotated[
        float | None,
        Check(gt=0, lt=1),
        Flag(LEARNING, "Probability with which the promise of --epsilon may fail. Default: 1e-5."),
    ] = None
    range: Annotated[
        tuple[float, float] | None,
        Check(before=two_numbers),
        Flag(
            LEARNING,
            "Smallest and largest possible target, for --epsilon: known beforehand, not taken from "
            "the rows. Not needed for classes.",
            metavar="LOW,HIGH",
        ),
    ] = None
    leakage: Annotated[
        bool,
        Flag(
            OUTPUT,
            "Attack the exchanged predictions: how well can a neighbour tell a node's training rows "
            "from its test rows? The report shows this for every node.",
            spelling="--leakage",
            before="jobs",
        ),
    ] = False
    live: Annotated[
        bool,
        Flag(
            OUTPUT,
            "Show the run on a web page of this machine while it lasts; the address is printed.",
            spelling="--live",
            before="jobs",
            saved=False,
        ),
    ] = False


@command_with(FitConfig)
def fit(config: FitConfig, talk: Talk) -> None:
    """Train one model per node and say whether learning together helped.

    A share of each node's rows is held out for testing. On these, three ways are compared: each node
    alone, one pooled model, and together over the graph. The saved models are then trained on all
    rows, with the settings that were measured.

    [bold]Example:[/bold] fedrelax fit weather.csv --node station --target temp
    --graph knn:lat,lon:5 --model-for Helsinki=forest --out result
    """
    from fedrelax.cli.privacy import check_leakage, check_private
    from fedrelax.storage.places import check_directory

    check_directory(config.out, config.overwrite)
    check_private(config)
    check_leakage(config)
    run_fit(config, talk)


def run_fit(config: FitConfig, talk: Talk, kept: Any = None) -> None:
    """Train, save and report; ``kept`` is the ``RunDirectory`` of a run that is resumed."""
    talk.activity.doing(f"Reading {config.data.name}", step="reading")
    from fedrelax.cli.inputs import effective, read_inputs
    from fedrelax.cli.interruption import Interruption, Step
    from fedrelax.cli.live import check_live, live_view, tell_end
    from fedrelax.cli.stopping import RunDirectory
    from fedrelax.cli.training import save, train

    if config.live:
        check_live()
    with Interruption().caught() as interruption:
        inputs = read_inputs(config, talk.note)
        if kept is None and config.checkpoint_every is not None:
            kept = RunDirectory.begin(config)
        with (
            nullcontext() if kept is None else kept.open(interruption),
            live_view(inputs, config.target, talk) if config.live else nullcontext() as view,
        ):
            outcome = train(inputs, config, talk, interruption, view=view, kept=kept)
            fitted = outcome.fitted
            rounds = counted(fitted.n_rounds_, "round")
            used = f"alpha = {fitted.alpha_:.6g} and {rounds} were used"
            settings = effective(config, inputs.task, inputs.feature_names)
            interruption.enter(Step.SAVING)
            metrics = save(inputs, config, outcome, talk, settings=settings, comment=used)
            interruption.enter(Step.ENDING)
            if view is not None:
                tell_end(view, config.out, fitted.result_)
        if config.json:
            _print_json(config.out, metrics, outcome.evaluation, talk)
        else:
            _tell(config, outcome, talk)


def _print_json(out: Path, metrics: dict[str, Any], found: Any, talk: Talk) -> None:
    per_node = [] if found is None else found.nodes.to_dict("records")
    answer = {"out": str(out), **metrics, "per_node": per_node, "notes": talk.notes}
    talk.json(answer)


def _tell(config: FitConfig, outcome: Any, talk: Talk) -> None:
    from fedrelax.report.page import REPORT
    from fedrelax.report.terminal import evaluation_report

    result, out = outcome.fitted.result_, config.out
    talk.say("")
    if outcome.evaluation is None:
        talk.plain("All rows were used for training (--test-share 0), so no error was measured.")
    else:
        talk.say(evaluation_report(outcome.data))
    talk.say("")
    talk.plain(how_it_went(outcome))
    for promise in result.promises:
        talk.plain(f"Promised to every node: {promise.says}.")
    choice = outcome.fitted.choice_
    if choice is not None and choice.better is not None:
        talk.plain(choice.better)
    if (out / REPORT).exists():
        talk.plain(f"Open {out / REPORT} in a browser: one file, which you can pass on.")
    trained = "trained on all rows, with the settings that were measured"
    if outcome.evaluation is None:
        trained = "trained on all rows"
    elif not outcome.on_all_rows:
        trained = "those that were measured, trained on the training rows"
    models = counted(len(result.local_models), "model")
    talk.plain(f"Saved in {out}: {models} ({trained}) and")
    picture = ", result.png" if (out / "result.png").exists() else ""
    talk.plain(f"  metrics.json, nodes.csv, edges.csv, history.csv, config.toml{picture}")
    talk.plain("Next:")
    talk.command(f"fedrelax predict {shlex.quote(str(out))} NEW_ROWS.csv --out predictions.csv")
    talk.command(f"fedrelax info {shlex.quote(str(out))}")


def how_it_went(outcome: Any) -> str:
    """Return which alpha and how many rounds were used, and why, in words."""
    result, choice = outcome.fitted.result_, outcome.fitted.choice_
    alpha = f"alpha {outcome.fitted.alpha_:.3g}"
    rounds = counted(result.n_rounds, "round")
    if outcome.fitted.whole_ is None and choice is not None and choice.alpha == 0:
        return "No coupling was chosen: alone was best in cross-validation on the training rows."
    wired = "" if result.kept is None else _wired(result)
    if result.stayed:
        wired += (
            f" Clearly better alone in validation, so left alone: {listing(result.stayed, most=5)}."
        )
    if outcome.fitted.whole_ is not None:
        return f"Found from the training rows: {choice.reason}.{wired}"
    if choice is not None:
        return f"Used {alpha} and {rounds}, chosen by cross-validation on the training rows only.{wired}"
    return f"Used {alpha} and {rounds} ({result.reason}).{wired}"


def _wired(result: Any) -> str:
    """Return which edges were kept and which groups they form, in words."""
    given, kept = result.graph.n_edges, result.kept.n_edges
    sizes = [len(cluster) for cluster in result.clusters]
    shown = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
    groups = f"{len(sizes)} group{'s' * (len(sizes) != 1)} of {shown} nodes"
    edges = f"kept {kept:,} of {given:,}" if given >= kept else f"found {kept:,}"
    return f" The nodes {edges} edges, which form {groups} (edges.csv, nodes.csv)."
