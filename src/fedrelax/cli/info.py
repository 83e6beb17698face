"""``fedrelax info`` and ``report``: what a saved result holds, without loading any model."""

from __future__ import annotations

from pathlib import Path

from fedrelax.cli.config import command
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import SavedDir


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
