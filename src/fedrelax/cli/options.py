"""The flags that ``fit`` and ``compare`` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA, LEARNING, MODELS, OUTPUT = "Data", "Learning together", "Models", "Running and output"

Table = Annotated[
    Path | None,
    typer.Argument(help="The table: .csv (any separator, any encoding) or .parquet."),
]
Node = Annotated[
    str | None,
    typer.Option(help="Column that names the node of each row.", rich_help_panel=DATA),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column to predict.", rich_help_panel=DATA),
]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns to predict from, as a,b,c. Default: all other columns of numbers.",
        rich_help_panel=DATA,
    ),
]
Task = Annotated[
    str | None,
    typer.Option(help="auto, regression or classification. Default: auto.", rich_help_panel=DATA),
]
DropMissing = Annotated[
    bool | None,
    typer.Option(
        "--drop-missing/--keep-missing",
        help="Leave out rows with a missing value instead of stopping.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="ridge, linear, logistic, tree, forest, boosting, mlp, svm, knn; with an extra: "
        "torch-mlp, torch-linear, keras-mlp, xgboost, lightgbm, hoeffding; or package.module:name of "
        "a class, or of a function that returns a model. Default: ridge for numbers, logistic for classes.",
        rich_help_panel=MODELS,
    ),
]
ModelFor = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NODE=MODEL",
        help="Another model for one node; may be given many times.",
        rich_help_panel=MODELS,
    ),
]
GraphForm = Annotated[
    str | None,
    typer.Option(
        help="Who learns from whom: complete (everybody), knn:lat,lon:5 (the 5 nearest by "
        "columns of the table), features:5 (the 5 with the most alike inputs), or "
        "edges:FILE (a table source,target,weight). Default: complete.",
        rich_help_panel=LEARNING,
    ),
]
Wiring = Annotated[
    str | None,
    typer.Option(
        help="fixed keeps the graph; rewire lets every node keep the neighbours that agree with it; "
        "discover finds neighbours where no graph is given; reweight lets those who disagree count "
        "for less; auto chooses on the training rows. Default: fixed.",
        rich_help_panel=LEARNING,
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        help="The rows on which neighbours compare predictions: blend, gaussian, marginals, uniform, "
        "standard, bootstrap (how to draw them), or a table file. Default: blend.",
        rich_help_panel=LEARNING,
    ),
]
PublicCount = Annotated[
    int | None,
    typer.Option(help="How many are drawn. Default: 200.", rich_help_panel=LEARNING),
]
Overwrite = Annotated[
    bool | None,
    typer.Option(
        "--overwrite/--no-overwrite",
        help="Replace a former result in --out.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with any of these flags; the command line wins. Every result holds "
        "such a file.",
        rich_help_panel=OUTPUT,
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="package.module:name",
        help="Allow --config to name this model, whose code then runs; may be given many times.",
        rich_help_panel=OUTPUT,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        help="Workers; -1 for all cores. The result is the same. Default: 1.",
        rich_help_panel=OUTPUT,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Same seed, same result. Default: 0.", rich_help_panel=OUTPUT),
]
Json = Annotated[
    bool | None,
    typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT),
]
Debug = Annotated[
    bool | None,
    typer.Option("--debug", help="Show tracebacks.", rich_help_panel=OUTPUT),
]
