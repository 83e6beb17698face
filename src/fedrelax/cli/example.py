"""``fedrelax example``: a table to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrelax.cli.console import speaking


def example(
    out: Annotated[Path, typer.Argument(metavar="CSV", help="File to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Write a small made-up table: the electricity load of 24 sites on a map, 12 rows each.

    [bold]Example:[/bold] fedrelax example my.csv
    """
    with speaking(debug) as talk:
        from fedrelax.datasets.example import example_table
        from fedrelax.storage.places import check_file

        check_file(out, (".csv",), overwrite)
        table = example_table()
        table.to_csv(out, index=False)
        talk.plain(f"Wrote {out}: {len(table)} rows of {table['site'].nunique()} sites. Next:")
        talk.command(f"fedrelax fit {out} --node site --target load --out result")
