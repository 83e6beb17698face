"""``fedrelax predict``, ``info`` and ``report``: what a saved result answers, holds and shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedrelax.cli.config import command
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import SavedDir, Trust
from fedrelax.errors import visible

ENDINGS = (".csv", ".tsv", ".parquet", ".pq")

UnknownNodes = Annotated[
    Literal["consensus", "refuse"],
    typer.Option(
        help="Rows of nodes that were not in training and have no neighbour with a model: predict them by "
        "the mean of all nodes, or refuse them."
    ),
]


@command
def predict(
    talk: Talk,
    directory: SavedDir,
    data: Path,
    *,
    out: Path | None = None,
    trust: Trust = None,
    unknown_nodes: UnknownNodes = "consensus",
    overwrite: bool = False,
) -> None:
    """Predict new rows, each with the model of its node.

    A node that is in the graph but has no model gets the mean of its neighbours' predictions, and a node
    that is not in the graph the mean of all nodes' predictions. Classes come with their probabilities, in
    columns such as p(cat).

    [bold]Example:[/bold] fedrelax predict result new_rows.csv --out predictions.csv

    data : New rows, with the node column and the features used in training.
    out : File to write (.csv, .parquet): the rows and a column prediction. Default: CSV, printed.
    overwrite : Replace the file.
    """
    talk.activity.doing(f"Reading {data.name}")
    from fedrelax.cli.inputs import look_here_for_modules, nodes_in
    from fedrelax.datasets import read_table
    from fedrelax.errors import FedRelaxError, counted, listing
    from fedrelax.extras import need
    from fedrelax.storage.loading import coded_rows, load_result, read_result
    from fedrelax.storage.places import check_file, whole_file

    if out is not None:
        check_file(out, ENDINGS, overwrite)
    saved, refuse = read_result(directory), unknown_nodes == "refuse"
    frame = read_table(data, as_text=[str(saved.about["node_column"])])
    nodes = nodes_in(frame, saved, data, refuse)
    X = coded_rows(saved, frame, nodes, str(data), talk.note)
    classes = [] if saved.task.classes is None else saved.task.classes.tolist()
    for name in ("prediction", *(f"p({label})" for label in classes)):
        if name in frame.columns:
            raise FedRelaxError(
                f"{data} already has a column {name!r}, which predict would replace; rename it"
            )
    if trust:
        look_here_for_modules()
    talk.activity.doing(f"Loading {len(saved.models)} models")
    unknown = "raise" if refuse else "consensus"
    fitted = load_result(saved, trust or []).set_params(unknown=unknown)
    talk.activity.doing(f"Predicting {len(frame)} rows")
    answer = fitted.answers(X, nodes)
    frame["prediction"] = saved.task.decode(answer)
    for number, label in enumerate(classes):
        frame[f"p({label})"] = answer[:, number]
    if out is None:
        talk.activity.pause()
        text = frame.to_csv(index=False)
        typer.echo(visible(text) if talk.out.is_terminal else text, nl=False)
    else:
        talk.activity.doing(f"Writing {out.name}")
        ending = out.suffix.lower()
        with whole_file(out, overwrite) as draft:
            if ending in ENDINGS[2:]:
                need("pyarrow", "parquet")
                frame.to_parquet(draft, index=False)
            else:
                frame.to_csv(draft, index=False, sep="\t" if ending == ".tsv" else ",")
    models, graph = fitted.models_, fitted.whole_graph_
    without = sorted(
        str(node)
        for node in set(nodes) - set(models)
        if node in graph and any(near in models for near in graph.neighbours(node))
    )
    if without:
        talk.note(
            f"No model, so predicted by the mean of the neighbours: {listing(without, most=3)}."
        )
    if out is not None:
        written = f"{counted(len(frame), 'prediction')} for {counted(len(set(nodes)), 'node')}"
        talk.plain(f"Wrote {written} to {out}")


@command
def info(talk: Talk, directory: SavedDir) -> None:
    """Show what a result holds: models, graph, errors, and what left the nodes.

    [bold]Example:[/bold] fedrelax info result

    """
    from fedrelax.report import report_data
    from fedrelax.report.data.sharing import sharing_of
    from fedrelax.report.page.texts import events_of, facts, what_left
    from fedrelax.report.terminal import evaluation_report, fact_table
    from fedrelax.storage import read_result

    saved = read_result(directory)
    data = report_data(saved)
    lines = {
        **facts(saved),
        "left the nodes": " ".join(what_left(sharing_of(saved))),
        "needs --trust": ", ".join(saved.about["types_to_trust"]) or "nothing",
    }
    talk.say(fact_table(lines))
    if data.evaluation is not None:
        talk.say("", evaluation_report(data))
    events = events_of(saved)
    if events:
        talk.plain("\nSince it was trained:")
    for when, text, error in events:
        before = "" if error is None else f"; error before learning {error:.4g}"
        talk.plain(f"  {when}  {text}{before}")


@command
def report(
    talk: Talk, directory: SavedDir, *, out: Path | None = None, overwrite: bool = False
) -> None:
    """Write the report of a result: one HTML file that needs nothing else.

    It says whether learning together helped, where, and what left each node. No model is loaded.
    Without --out, the report that fit wrote in DIR is replaced.

    [bold]Example:[/bold] fedrelax report result --out to-send.html

    out : File to write. Default: report.html in DIR.
    overwrite : Replace the file --out.
    """
    talk.activity.doing("Writing the report")
    from fedrelax.report.page import write_report
    from fedrelax.storage import read_result
    from fedrelax.storage.places import check_file

    if out is not None:
        check_file(out, (".html", ".htm"), overwrite)
    path = write_report(read_result(directory), out, overwrite or out is None)
    talk.plain(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB); open it in a browser.")
