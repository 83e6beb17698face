"""``fedrelax join``, ``update`` and ``unplug``: change a saved result, into a new directory.

out : Directory for the new result; DIR stays as it is.
table : The table DIR was fitted to: results hold no rows, and only nodes with rows are refitted.
tol : Relative change of predictions that counts as none. Default: 1e-4; 1e-2 for trees.
overwrite : Replace an earlier result in --out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedrelax.cli.config import command
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import SavedDir, Trust
from fedrelax.cli.settings import parts_of

if TYPE_CHECKING:
    from fedrelax.living import Change

UNMOVED = 1e-9
"""A relative change of predictions below this is rounding."""


@command
def join(
    talk: Talk,
    directory: SavedDir,
    data: Path,
    *,
    out: Path,
    label: str | None = None,
    neighbours: str | None = None,
    table: Path | None = None,
    tol: float | None = None,
    trust: Trust = None,
    overwrite: bool = False,
) -> None:
    """Add nodes to a trained network: each finds its neighbours and is fitted, and others as needed.

    [bold]Example:[/bold] fedrelax join result new_shop.csv --out grown

    data : The newcomers' rows, with features and target.
    label : Name of the newcomer, if it is one. Default: by the node column.
    neighbours : Whom it learns from: a,b,c. Default: by coordinates, or whose predictions fit.
    """
    from fedrelax.cli.new_rows import Grown, positions_in

    grown = Grown(talk, directory, out, table, trust, overwrite)
    near = [grown.node(text) for text in parts_of(neighbours or "")] or None
    (X, y, nodes), frame = grown.newcomers(data, label)
    for name in dict.fromkeys(nodes.tolist()):
        talk.activity.doing(f"Fitting {name} and those near it")
        own = nodes == name
        change = grown.fitted.plug_in(
            name,
            X[own],
            y[own],
            neighbours=near,
            position=None if near else positions_in(frame[own], grown.saved),
            tol=tol,
        )
        _tell(change, talk)
    grown.save()


@command
def update(
    talk: Talk,
    directory: SavedDir,
    data: Path,
    *,
    out: Path,
    keep: int | None = None,
    table: Path | None = None,
    tol: float | None = None,
    trust: Trust = None,
    overwrite: bool = False,
) -> None:
    """Learn from new rows: they are predicted first, then their nodes are refitted, and others as needed.

    [bold]Example:[/bold] fedrelax update result this_week.csv --table rows.csv --keep 500 --out next

    data : New rows of nodes of the network.
    keep : Keep only this many of each node's newest rows.
    """
    from fedrelax.cli.new_rows import Grown

    grown = Grown(talk, directory, out, table, trust, overwrite)
    rows = grown.new_rows(data)
    talk.activity.doing("Refitting the nodes of new rows and those near them")
    _tell(grown.fitted.update(*rows, keep=keep, tol=tol), talk)
    grown.save()


@command
def unplug(
    talk: Talk,
    directory: SavedDir,
    label: str,
    *,
    out: Path,
    table: Path | None = None,
    tol: float | None = None,
    trust: Trust = None,
    overwrite: bool = False,
) -> None:
    """Remove a node: nothing of it goes into the new result, and its neighbours are refitted without it.

    [bold]Example:[/bold] fedrelax unplug result old_shop --out smaller

    label : The node to remove.
    """
    from fedrelax.cli.new_rows import Grown

    grown = Grown(talk, directory, out, table, trust, overwrite)
    talk.activity.doing("Refitting the neighbours")
    _tell(grown.fitted.unplug(grown.node(label), tol=tol), talk)
    grown.save()


def _tell(change: Change, talk: Talk) -> None:
    from fedrelax.errors import counted, listing

    who = listing(change.nodes, most=3)
    if change.what == "join":
        talk.plain(f"Node {who} joined: it learns from {listing(change.neighbours, most=5)}.")
    elif change.what == "leave":
        talk.plain(f"Node {who} left.")
    else:
        talk.plain(f"Learned {counted(change.rows, 'new row')} of {who}.")
    if change.rows:
        talk.plain(
            f"Before they were learned, the mean loss on the new rows was {change.error:.4g}."
        )
    moved = f"changed by at most {max(100 * change.movement, 0.01):.2g} %"
    if change.movement < UNMOVED:
        moved = "did not change"
    nodes = counted(len(change.refitted), "node")
    talk.plain(f"Refitted {nodes} in {change.seconds:.2f} s; predictions {moved}.")
    for text in change.notes:
        talk.note(f"{text}.")
