"""``fedrelax fit``: from a table to one model per node."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrelax.cli.console import Talk, speaking

DATA, LEARNING, MODELS, OUTPUT = "Data", "Learning together", "Models", "Running and output"


def fit(
    data: Annotated[
        Path | None,
        typer.Argument(help="The table: .csv (any separator, any encoding) or .parquet."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(help="Column that names the node of each row.", rich_help_panel=DATA),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column to predict.", rich_help_panel=DATA),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns to predict from, as a,b,c. Default: all other columns of numbers.",
            rich_help_panel=DATA,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="auto, regression or classification. Default: auto.", rich_help_panel=DATA
        ),
    ] = None,
    drop_missing: Annotated[
        bool | None,
        typer.Option(
            "--drop-missing/--keep-missing",
            help="Leave out rows with a missing value instead of stopping.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            help="Share of each node's rows that nobody trains on. Default: 0.2. "
            "0 trains on everything and measures nothing.",
            rich_help_panel=DATA,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="ridge, linear, logistic, tree, forest, boosting, mlp, svm, knn, or "
            "package.module:Class. Default: ridge for numbers, logistic for classes.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    model_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=MODEL",
            help="Another model for one node; may be given many times.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            help="Who learns from whom: complete (everybody), knn:lat,lon:5 (the 5 nearest by "
            "columns of the table), features:5 (the 5 with the most alike inputs), or "
            "edges:FILE (a table source,target,weight). Default: complete.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
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
        typer.Option(help="The most rounds. Default: 20.", rich_help_panel=LEARNING),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(
            help="The rows on which neighbours compare predictions: blend, gaussian, marginals, uniform, "
            "standard, bootstrap (how to draw them), or a table file. Default: blend.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    public_rows: Annotated[
        int | None,
        typer.Option(help="How many are drawn. Default: 200.", rich_help_panel=LEARNING),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory to write; it appears whole or not at all.", rich_help_panel=OUTPUT
        ),
    ] = None,
    overwrite: Annotated[
        bool | None,
        typer.Option(
            "--overwrite/--no-overwrite",
            help="Replace a former result in --out.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with any of these flags; the command line wins. Every result holds "
            "such a file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Workers; -1 for all cores. The result is the same. Default: 1.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Same seed, same result. Default: 0.", rich_help_panel=OUTPUT),
    ] = None,
    json_: Annotated[
        bool | None,
        typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT),
    ] = None,
    debug: Annotated[
        bool | None,
        typer.Option("--debug", help="Show tracebacks.", rich_help_panel=OUTPUT),
    ] = None,
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
    from fedrelax.cli.config import make_config
    from fedrelax.cli.inputs import read_inputs
    from fedrelax.cli.training import save, train
    from fedrelax.storage.places import check_directory

    config = make_config(file, flags)
    talk.out.quiet = config.json_
    check_directory(config.out, config.overwrite)
    inputs = read_inputs(config, talk.note)
    outcome = train(
        inputs,
        talk,
        alpha=config.alpha,
        rounds=config.rounds,
        public_rows=config.public_rows,
        jobs=config.jobs,
        seed=config.seed,
    )
    metrics = save(
        config.out,
        inputs,
        outcome,
        talk,
        config=_effective(config, inputs),
        comment=f"alpha = {outcome.fitted.alpha:.6g} and {outcome.fitted.n_rounds_} rounds were used",
        node_column=config.node,
        target=config.target,
        overwrite=config.overwrite,
    )
    if config.json_:
        _print_json(config.out, metrics, outcome.summary, talk)
    else:
        _tell(config, outcome, talk)


def _effective(config: Any, inputs: Any) -> dict[str, Any]:
    from fedrelax.cli.graphs import parse_graph
    from fedrelax.models.names import DEFAULTS
    from fedrelax.public import DRAWS

    drawn = config.public in DRAWS
    settings: dict[str, Any] = config.to_file(
        features=list(inputs.feature_names),
        task=inputs.task,
        model=config.model or DEFAULTS[inputs.task],
        graph=str(parse_graph(config.graph)),
        public=config.public if drawn else str(Path(config.public).absolute()),
    )
    return settings


def _print_json(out: Path, metrics: dict[str, Any], summary: Any, talk: Talk) -> None:
    from fedrelax.storage.saving import plain

    per_node = [] if summary is None else summary.nodes.to_dict("records")
    answer = {"out": str(out), **metrics, "per_node": per_node, "notes": talk.notes}
    typer.echo(json.dumps(plain(answer), indent=2, ensure_ascii=False, allow_nan=False))


def _tell(config: Any, outcome: Any, talk: Talk) -> None:
    from fedrelax.report.tables import comparison

    result, out = outcome.fitted.result_, config.out
    talk.say("")
    if outcome.summary is None:
        talk.plain("All rows trained (--test-share 0), so no error was measured.")
    else:
        talk.say(comparison(outcome.summary))
    talk.say("")
    talk.plain(how_it_went(outcome))
    trained = "the ones measured, trained on the training rows"
    if outcome.summary is None:
        trained = "trained on all rows"
    talk.plain(f"Saved in {out}: {len(result.local_models)} models ({trained}) and")
    picture = ", result.png" if (out / "result.png").exists() else ""
    talk.plain(f"  metrics.json, nodes.csv, edges.csv, history.csv, config.toml{picture}")
    talk.plain("Next:")
    talk.plain(f"  fedrelax predict {shlex.quote(str(out))} NEW_ROWS.csv --out predictions.csv")
    talk.plain(f"  fedrelax info {shlex.quote(str(out))}")


def how_it_went(outcome: Any) -> str:
    """Say which alpha and how many rounds were used, and why."""
    result, choice = outcome.fitted.result_, outcome.choice
    alpha = f"alpha {outcome.fitted.alpha:.3g}"
    rounds = f"{result.n_rounds} round{'s' * (result.n_rounds != 1)}"
    if choice is not None and (choice.rounds == 0 or choice.alpha == 0):
        return "No coupling was chosen: in cross-validation on the training rows, alone was best."
    if choice is not None:
        return f"Used {alpha} and {rounds}, chosen by cross-validation on the training rows only."
    return f"Used {alpha} and {rounds} ({result.reason})."
