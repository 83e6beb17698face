"""``fedrelax resume``: continue a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrelax.cli.config import place_of
from fedrelax.cli.console import speaking
from fedrelax.cli.fit import FitConfig, run_fit
from fedrelax.cli.options import flags_of

FLAGS = flags_of(FitConfig)


def resume(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Checkpoint of fedrelax fit --checkpoint-every.")
    ],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="package.module:name",
            help="Model that the run may use, whose code then runs; can be repeated.",
        ),
    ] = None,
    overwrite: Annotated[bool | None, FLAGS["overwrite"].option()] = None,
    backend: Annotated[str | None, FLAGS["backend"].option()] = None,
    address: Annotated[str | None, FLAGS["address"].option()] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Continue a run that was stopped, as if nothing had happened.

    It needs only DIR, which holds settings and seeds, and the table in its old place. The result goes to
    the --out of the first command, and is that of a run that was never stopped, to the last digit.
    --trust, --overwrite, --backend and --address have to be typed again: DIR may come from elsewhere.

    [bold]Example:[/bold] fedrelax resume result.checkpoint
    """
    with speaking(debug, steps=FitConfig.steps) as talk:
        from fedrelax.cli.stopping import RunDirectory
        from fedrelax.storage.places import check_directory

        kept, config = RunDirectory.find(
            directory, trust or (), overwrite=overwrite, backend=backend, address=address
        )
        talk.out.quiet = config.json
        check_directory(config.out, config.overwrite)
        with place_of(config):
            run_fit(config, talk, kept)
