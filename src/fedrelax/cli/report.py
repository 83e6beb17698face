"""``fedrelax report``: write the report of a saved result, without loading any model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrelax.cli.console import speaking

ENDINGS = (".html", ".htm")


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Result directory, as fedrelax fit writes it.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write. Default: report.html in DIR.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file --out.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Write the report of a result: one HTML file that needs nothing else.

    It says whether learning together helped, where, and what left each node. No model is loaded.
    Without --out, the report that fit wrote in DIR is replaced.

    [bold]Example:[/bold] fedrelax report result --out to-send.html
    """
    with speaking(debug, steps={"writing": 2.0}) as talk:
        talk.activity.doing("Writing the report", step="writing")
        from fedrelax.report.page import write_report
        from fedrelax.storage import read_result
        from fedrelax.storage.places import check_file

        if out is not None:
            check_file(out, ENDINGS, overwrite)
        path = write_report(read_result(directory), out, overwrite or out is None)
        talk.plain(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB); open it in a browser.")
