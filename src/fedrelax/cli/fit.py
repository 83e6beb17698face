"""``fedrelax fit``: from a table to one model per node."""

from __future__ import annotations

import json
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrelax.cli import options
from fedrelax.cli.console import Talk, speaking
from fedrelax.cli.options import DATA, LEARNING, OUTPUT
from fedrelax.errors import listing


def fit(
    data: options.Table = None,
    node: options.Node = None,
    target: options.Target = None,
    features: options.Features = None,
    task: options.Task = None,
    drop_missing: options.DropMissing = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            help="Share of each node's rows that nobody trains on. Default: 0.2. "
            "0 trains on everything and measures nothing.",
            rich_help_panel=DATA,
        ),
    ] = None,
    model: options.Model = None,
    model_for: options.ModelFor = None,
    graph: options.GraphForm = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="How much neighbours count, from 0 (each alone) upwards. Default: auto, which "
            "chooses alpha and the rounds by cross-validation on the training rows.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="The most rounds. Default: 20; 200 for linear models, whose rounds are cheap.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    wiring: options.Wiring = None,
    public: options.Public = None,
    public_rows: options.PublicCount = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory to write; it appears whole or not at all.", rich_help_panel=OUTPUT
        ),
    ] = None,
    overwrite: options.Overwrite = None,
    config: options.Config = None,
    trust: options.Trust = None,
    live: Annotated[
        bool | None,
        typer.Option(
            "--live",
            help="Show the run on a page of this machine while it runs; the address is printed.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    jobs: options.Jobs = None,
    seed: options.Seed = None,
    json_: options.Json = None,
    debug: options.Debug = None,
) -> None:
    """Train one model per node and say whether learning together helped.

    A share of each node's rows is kept for testing. On it, three ways are compared: each node
    alone, one pooled model, and together over the graph. The models that are measured are the
    ones that are saved.

    [bold]Example:[/bold] fedrelax fit weather.csv --node station --target temp
    --graph knn:lat,lon:5 --model-for Helsinki=forest --out result
    """
    flags = dict(locals())
    flags["json"] = flags.pop("json_")
    file = flags.pop("config")
    with speaking(bool(debug), quiet=bool(json_)) as talk:
        run_fit(file, flags, talk)


def run_fit(file: Path | None, flags: dict[str, Any], talk: Talk) -> None:
    """Check everything, train, save, tell."""
    from fedrelax.cli.config import FitConfig, make_config
    from fedrelax.cli.inputs import effective, read_inputs
    from fedrelax.cli.live import check_live, live_view, tell_end
    from fedrelax.cli.training import save, train
    from fedrelax.storage.places import check_directory

    config = make_config(FitConfig, file, flags)
    talk.out.quiet = config.json_
    check_directory(config.out, config.overwrite)
    if config.live:
        check_live()
    inputs = read_inputs(config, talk.note)
    with live_view(inputs, config.target, talk) if config.live else nullcontext() as view:
        outcome = train(
            inputs,
            talk,
            alpha=config.alpha,
            rounds=config.rounds,
            wiring=config.wiring,
            public_rows=config.public_rows,
            jobs=config.jobs,
            seed=config.seed,
            view=view,
        )
        used = (
            f"alpha = {outcome.fitted.alpha_:.6g} and {outcome.fitted.n_rounds_} rounds were used"
        )
        metrics = save(
            config.out,
            inputs,
            outcome,
            talk,
            config=effective(config, inputs.task, inputs.feature_names),
            comment=used,
            node_column=config.node,
            target=config.target,
            overwrite=config.overwrite,
        )
        if view is not None:
            tell_end(view, config.out, outcome.fitted.result_)
    if config.json_:
        _print_json(config.out, metrics, outcome.evaluation, talk)
    else:
        _tell(config, outcome, talk)


def _print_json(out: Path, metrics: dict[str, Any], found: Any, talk: Talk) -> None:
    from fedrelax.storage.saving import plain

    per_node = [] if found is None else found.nodes.to_dict("records")
    answer = {"out": str(out), **metrics, "per_node": per_node, "notes": talk.notes}
    typer.echo(json.dumps(plain(answer), indent=2, ensure_ascii=False, allow_nan=False))


def _tell(config: Any, outcome: Any, talk: Talk) -> None:
    from fedrelax.report.page import REPORT
    from fedrelax.report.terminal import evaluation_report

    result, out = outcome.fitted.result_, config.out
    talk.say("")
    if outcome.evaluation is None:
        talk.plain("All rows trained (--test-share 0), so no error was measured.")
    else:
        talk.say(evaluation_report(outcome.data))
    talk.say("")
    talk.plain(how_it_went(outcome))
    if (out / REPORT).exists():
        talk.plain(f"Look at {out / REPORT}: one file, to open in a browser and to send on.")
    trained = "the ones measured, trained on the training rows"
    if outcome.evaluation is None:
        trained = "trained on all rows"
    talk.plain(f"Saved in {out}: {len(result.local_models)} models ({trained}) and")
    picture = ", result.png" if (out / "result.png").exists() else ""
    talk.plain(f"  metrics.json, nodes.csv, edges.csv, history.csv, config.toml{picture}")
    talk.plain("Next:")
    talk.plain(f"  fedrelax predict {shlex.quote(str(out))} NEW_ROWS.csv --out predictions.csv")
    talk.plain(f"  fedrelax info {shlex.quote(str(out))}")


def how_it_went(outcome: Any) -> str:
    """Say which alpha and how many rounds were used, and why."""
    result, choice = outcome.fitted.result_, outcome.fitted.choice_
    alpha = f"alpha {outcome.fitted.alpha_:.3g}"
    rounds = f"{result.n_rounds} round{'s' * (result.n_rounds != 1)}"
    if choice is not None and (choice.rounds == 0 or choice.alpha == 0):
        return "No coupling was chosen: in cross-validation on the training rows, alone was best."
    wired = "" if result.kept is None else _wired(result)
    if result.stayed:
        wired += (
            f" Node {listing(result.stayed, most=5)} did clearly better alone in validation and "
            "kept its own model."
        )
    if choice is not None:
        return f"Used {alpha} and {rounds}, chosen by cross-validation on the training rows only.{wired}"
    return f"Used {alpha} and {rounds} ({result.reason}).{wired}"


def _wired(result: Any) -> str:
    """Say which edges were kept and which groups they make."""
    given, kept = result.graph.n_edges, result.kept.n_edges
    sizes = [len(cluster) for cluster in result.clusters]
    shown = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
    groups = f"{len(sizes)} group{'s' * (len(sizes) != 1)} of {shown} nodes"
    edges = f"kept {kept:,} of {given:,}" if given >= kept else f"found {kept:,}"
    return f" The nodes {edges} edges, which make {groups} (edges.csv, nodes.csv)."
