"""``fedrelax predict``, ``info``, ``report`` and ``serve``: what a saved result answers, holds, shows."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
    from fedrelax.cli.inputs import nodes_in
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


@command
def serve(
    talk: Talk,
    directory: SavedDir,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    token: Annotated[str | None, typer.Option(envvar="FEDRELAX_TOKEN")] = None,
    no_token: bool = False,
    max_bytes: Annotated[int, typer.Option(min=1)] = 1_000_000,
    learn: Annotated[Path | None, typer.Option(metavar="TABLE")] = None,
    unknown_nodes: UnknownNodes = "consensus",
    trust: Trust = None,
) -> None:
    """Serve predictions over HTTP, as JSON, until Ctrl-C.

    POST /predict predicts rows as fedrelax predict does, GET / shows the report, GET /nodes says what
    can be asked, and GET /health that the service is up.

    [bold]Example:[/bold] fedrelax serve result --port 8000

    host : Address to listen on. 127.0.0.1 is for this machine only.
    port : Port to listen on; 0 takes any free one.
    token : Secret that every request must carry. Default: a random one, which is printed.
    no_token : Ask for no secret; for this machine only.
    max_bytes : Largest request body.
    learn : Learn from new rows sent to POST /rows; TABLE holds the training rows. New results are saved
        in DIR.learned, and DIR stays as it is.
    """
    from fedrelax.extras import need_live

    need_live()
    from fedrelax.cli.new_rows import Learner
    from fedrelax.errors import FedRelaxError
    from fedrelax.serving import Application, Served
    from fedrelax.serving.application import HEALTH
    from fedrelax.storage import read_result
    from fedrelax.web import Server, check_token, listen

    if token is not None and no_token:
        raise FedRelaxError("--token and --no-token contradict each other; give one of them")
    if token is not None:
        check_token(token)
    secret = None if no_token else token or secrets.token_urlsafe(24)
    saved, allowed = read_result(directory), tuple(trust or ())
    with listen(host, port, secret) as listening:
        learner = None if learn is None else Learner(directory, learn, allowed, talk)
        served = Served(saved, allowed, "raise" if unknown_nodes == "refuse" else "consensus")
        app = Application(served, max_bytes, talk.address, learner)
        server = Server(app.routes(), listening, host, secret, open_paths=[HEALTH])
        # a given token is known and stays out of logs; a random one has to be shown
        where = server.page if token is None else server.address
        talk.address(f"serving: {where} (Ctrl-C ends it)")
        with _signals_only_end_it(), closing(app):
            server.run()
    talk.address("stopped")


@contextmanager
def _signals_only_end_it() -> Iterator[None]:
    """Let the server shut down cleanly on Ctrl-C and SIGTERM; the signal it raises again is ignored."""
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, lambda *_: None) for kind in kinds}
    try:
        yield
    finally:
        for kind, former in before.items():
            signal.signal(kind, former)
