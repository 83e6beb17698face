"""``fedrelax resume``: go on with a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrelax.cli.console import speaking


def resume(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What fedrelax fit --checkpoint-every has kept.")
    ],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="package.module:name",
            help="Allow the run to use this model, whose code then runs; may be given many times.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Go on with a run that was stopped, as if nothing had happened.

    It needs nothing but DIR, and the table where it was: settings and seeds are in DIR. The result, in
    the --out of the first command, is the one of a run that was never stopped, to the last digit.

    [bold]Example:[/bold] fedrelax resume result.checkpoint
    """
    with speaking(debug) as talk:
        from fedrelax.cli.fit import run_fit
        from fedrelax.cli.stopping import RunDirectory
        from fedrelax.storage.places import check_directory

        kept, config = RunDirectory.find(directory, list(trust or ()))
        talk.out.quiet = config.json
        check_directory(config.out, config.overwrite)
        run_fit(config, talk, kept)
