"""``fedrelax predict``: predictions for new rows from a saved result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedrelax.cli.console import Talk, speaking

ENDINGS = (".csv", ".tsv", ".parquet", ".pq")

UnknownNodes = Annotated[
    Literal["consensus", "refuse"],
    typer.Option(
        help="Rows of nodes that were not in training and have no neighbour with a model: predict them by "
        "the mean of all nodes, or refuse them."
    ),
]


def predict(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Result directory, as fedrelax fit writes it.")
    ],
    data: Annotated[
        Path,
        typer.Argument(help="New rows, with the node column and the features used in training."),
    ],
    out: Annotated[
        Path, typer.Option(help="File to write (.csv, .parquet): the rows and a column prediction.")
    ],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="package.module.Class",
            help="Type of another package that may be loaded; can be repeated.",
        ),
    ] = None,
    unknown_nodes: UnknownNodes = "consensus",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Predict new rows, each with the model of its node.

    A node that is in the graph but has no model gets the mean of its neighbours' predictions, and a node
    that is not in the graph the mean of all nodes' predictions. Classes come with their probabilities, in
    columns such as p(cat).

    [bold]Example:[/bold] fedrelax predict result new_rows.csv --out predictions.csv
    """
    steps = {"reading": 0.5, "loading": 1.0, "writing": 0.5}
    with speaking(debug, steps=steps) as talk:
        talk.activity.doing(f"Reading {data.name}", step="reading")
        refuse = unknown_nodes == "refuse"
        run_predict(directory, data, out, trust or [], refuse, overwrite, talk)


def run_predict(
    directory: Path,
    data: Path,
    out: Path,
    trust: Sequence[str],
    refuse: bool,
    overwrite: bool,
    talk: Talk,
) -> None:
    """Check everything, predict, write."""
    from fedrelax.cli.formulas import formula_note
    from fedrelax.cli.inputs import look_here_for_modules
    from fedrelax.datasets import read_table
    from fedrelax.errors import counted, listing
    from fedrelax.storage.loading import load_result, read_result
    from fedrelax.storage.places import check_file
    from fedrelax.storage.questions import coded_rows

    check_file(out, ENDINGS, overwrite)
    saved = read_result(directory)
    frame = read_table(data, as_text=[str(saved.about["node_column"])])
    nodes = nodes_in(frame, saved, data, refuse)
    X = coded_rows(saved, frame, nodes, str(data), talk.note)
    _check_free(frame, saved, data)
    if trust:
        look_here_for_modules()
    talk.activity.doing(f"Loading {len(saved.models)} models", step="loading")
    fitted = load_result(saved, trust).set_params(unknown="raise" if refuse else "consensus")
    talk.activity.doing(f"Predicting {len(frame)} rows", step="writing")
    answer = fitted.answers(X, nodes)
    frame["prediction"] = saved.task.decode(answer)
    for number, label in enumerate(_classes(saved)):
        frame[f"p({label})"] = answer[:, number]
    talk.activity.doing(f"Writing {out.name}")
    _write(frame, out, overwrite)
    formulas = formula_note(frame, out.name)
    if formulas is not None and out.suffix.lower() in (".csv", ".tsv"):
        talk.note(formulas)
    without = sorted({str(node) for node in nodes if _has_only_neighbours(fitted, node)})
    if without:
        talk.note(
            f"No model, so predicted by the mean of the neighbours: {listing(without, most=3)}."
        )
    talk.plain(
        f"Wrote {counted(len(frame), 'prediction')} for {counted(len(set(nodes)), 'node')} to {out}"
    )


def _classes(saved: Any) -> list[Any]:
    return [] if saved.task.classes is None else saved.task.classes.tolist()


def _has_only_neighbours(fitted: Any, node: Any) -> bool:
    models, graph = fitted.models_, fitted.whole_graph_
    return node not in models and node in graph and any(j in models for j in graph.neighbours(node))


def nodes_in(frame: Any, saved: Any, data: Path, refuse: bool = True) -> Any:
    """Return the label of every row's node; ``refuse`` those that are not in the graph."""
    import numpy as np

    from fedrelax.errors import FedRelaxError, did_you_mean, listing
    from fedrelax.schema.kinds import find_column, where
    from fedrelax.storage.labels import by_text, find_label

    own = [line["node"] for line in saved.models]
    if saved.about["node_column"] is None and len(own) == 1:
        return np.array(own * len(frame), dtype=object)  # a site's own folder: all rows are its own
    try:
        column = frame[find_column(frame, saved.about["node_column"])]
    except FedRelaxError as error:
        raise FedRelaxError(f"{data}: {error}") from None
    missing = column.isna().to_numpy()
    if missing.any():
        raise FedRelaxError(
            f"{data}: column {column.name!r} names no node in {missing.sum()} rows, the first on "
            f"{where(frame.index, int(missing.argmax()))}; fill it in"
        )
    known = by_text(saved.graph.labels)
    values = column.tolist()
    means = {value: find_label(value, known) for value in dict.fromkeys(values)}
    strange = [value for value, label in means.items() if label is None]
    if strange and refuse:
        rows = sum(means[value] is None for value in values)
        hint = did_you_mean(strange[0], known)
        raise FedRelaxError(
            f"{data}: {rows} rows belong to nodes that are neither in the training data nor in the "
            f"graph: {listing(strange)}{hint}; leave these rows out, or fit again with these nodes"
        )
    nodes = np.empty(len(values), dtype=object)
    nodes[:] = [str(value) if means[value] is None else means[value] for value in values]
    return nodes


def _check_free(frame: Any, saved: Any, data: Path) -> None:
    from fedrelax.errors import FedRelaxError

    taken = [c for c in ["prediction", *(f"p({k})" for k in _classes(saved))] if c in frame.columns]
    if taken:
        raise FedRelaxError(
            f"{data} already has a column {taken[0]!r}, which predict would replace; rename it"
        )


def _write(frame: Any, out: Path, overwrite: bool) -> None:
    from fedrelax.errors import FedRelaxError
    from fedrelax.storage.places import whole_file

    with whole_file(out, overwrite) as draft:
        if out.suffix.lower() in (".parquet", ".pq"):
            try:
                frame.to_parquet(draft, index=False)
            except ImportError as error:
                raise FedRelaxError(
                    f"--out {out} needs pyarrow; pip install 'fedrelax[parquet]', or write a .csv"
                ) from error
        else:
            frame.to_csv(draft, index=False, sep="\t" if out.suffix.lower() == ".tsv" else ",")
