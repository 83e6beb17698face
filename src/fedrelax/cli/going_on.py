"""``fedrelax join``, ``update`` and ``unplug``: a saved result goes on, in a new directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedrelax.cli.console import Talk, speaking

Result = Annotated[Path, typer.Argument(metavar="RESULT", help="What fedrelax fit has written.")]
Out = Annotated[Path, typer.Option(help="Directory for the new result; RESULT stays as it is.")]
OldRows = Annotated[
    Path | None,
    typer.Option(
        help="The table of RESULT: rows are not in a result, and nodes can follow only with theirs."
    ),
]
Ripple = Annotated[
    int | None,
    typer.Option(help="How many edges away others follow; 0: nobody. Default: while answers move."),
]
Tol = Annotated[
    float | None, typer.Option(help="The change of answers that counts as rest, relative.")
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="package.module.Class",
        help="Allow a type of another package to be loaded; may be given many times.",
    ),
]
Report = Annotated[
    bool, typer.Option("--report", help="Write report.html, too; fedrelax report does so later.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the new directory.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def join(
    directory: Result,
    data: Annotated[Path, typer.Argument(help="The newcomer's rows, with features and target.")],
    out: Out,
    label: Annotated[
        str | None, typer.Option(help="The newcomer's name. Default: what the node column says.")
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(
            help="Whom it listens to: a,b,c. Default: by coordinates, or whose answers fit."
        ),
    ] = None,
    table: OldRows = None,
    ripple: Ripple = None,
    tol: Tol = None,
    trust: Trust = None,
    report: Report = False,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Let newcomers join a trained network: each finds its circle, fits, and takes its place.

    [bold]Example:[/bold] fedrelax join result new_shop.csv --out grown
    """
    with speaking(debug) as talk:
        from fedrelax.cli.new_rows import Grown, positions_in, rows_in

        grown = Grown.of(directory, out, table, trust or [], overwrite, report, talk)
        known = [text.strip() for text in (neighbours or "").split(",") if text.strip()]
        near = [grown.node(text) for text in known] or None
        for name, rows in rows_in(data, grown, talk, newcomer=label, joining=True).items():
            change = grown.fitted.plug_in(
                name,
                rows.X,
                rows.y,
                neighbours=near,
                position=None if near else positions_in(rows.frame, grown.saved),
                ripple=ripple,
                tol=tol,
            )
            _tell(change, talk)
        grown.save(talk)


def update(
    directory: Result,
    data: Annotated[Path, typer.Argument(help="New rows of nodes that are in the network.")],
    out: Out,
    keep: Annotated[
        int | None, typer.Option(help="Go on with so many of each node's newest rows.")
    ] = None,
    table: OldRows = None,
    ripple: Ripple = None,
    tol: Tol = None,
    trust: Trust = None,
    report: Report = False,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Learn new rows: each is predicted first, then its node is fitted again, and others follow.

    [bold]Example:[/bold] fedrelax update result this_week.csv --table rows.csv --keep 500 --out next
    """
    with speaking(debug) as talk:
        from fedrelax.cli.new_rows import Grown, rows_in, stacked

        grown = Grown.of(directory, out, table, trust or [], overwrite, report, talk)
        rows = stacked(rows_in(data, grown, talk))
        change = grown.fitted.update(*rows, keep=keep, ripple=ripple, tol=tol)
        _tell(change, talk)
        grown.save(talk)


def unplug(
    directory: Result,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The node that leaves.")],
    out: Out,
    table: OldRows = None,
    ripple: Ripple = None,
    tol: Tol = None,
    trust: Trust = None,
    report: Report = False,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Let a node leave: nothing of it goes into the new result, and its neighbours relax without it.

    [bold]Example:[/bold] fedrelax unplug result old_shop --out smaller
    """
    with speaking(debug) as talk:
        from fedrelax.cli.new_rows import Grown

        grown = Grown.of(directory, out, table, trust or [], overwrite, report, talk)
        _tell(grown.fitted.unplug(grown.node(label), ripple=ripple, tol=tol), talk)
        grown.save(talk)


def _tell(change: Any, talk: Talk) -> None:
    from fedrelax.errors import listing

    who = listing(change.nodes, most=3)
    if change.what == "join":
        talk.plain(f"Node {who} joined: it listens to {listing(change.neighbours, most=5)}.")
    elif change.what == "leave":
        talk.plain(f"Node {who} left.")
    else:
        talk.plain(f"Node {who} learned {change.rows} new rows.")
    if change.rows:
        talk.plain(
            f"Before they were learned, the mean loss of the new rows was {change.error:.4g}."
        )
    talk.plain(
        f"Fitted again: {len(change.refitted)} nodes, in {change.seconds:.2f} s; answers moved by at "
        f"most {100 * change.movement:.2g} %."
    )
    if change.drifting:
        talk.plain(f"No longer fitted by their neighbours: {listing(change.drifting)}.")
    for node, near in change.moves.items():
        talk.plain(f"Node {node!r} went over to {listing(near, most=5)}.")
    for text in change.notes:
        talk.note(f"{text}.")
