"""The commands and the entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from fedrelax.cli.compare import compare
from fedrelax.cli.demo import demo, example
from fedrelax.cli.federate import federate
from fedrelax.cli.fit import fit, resume
from fedrelax.cli.living_commands import join, unplug, update
from fedrelax.cli.reproduce import reproduce
from fedrelax.cli.results import info, predict, report, serve

app = typer.Typer(
    name="fedrelax",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"fedrelax {version('fedrelax')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """One model per node, trained together over a graph.

    Your table has a column that says where each row comes from: a station, a clinic, a shop. Each
    of these nodes gets a model of its own, which learns from the node's rows and from its
    neighbours' predictions on public rows. Labels, models and rows stay at their node; by default the
    public rows, which neighbours see, are mixtures of two input rows each.

    Start with [bold]fedrelax demo[/bold], or with a table of your own:

    [bold]fedrelax fit weather.csv --node station --target temp --graph knn:lat,lon:5 --out result[/bold]
    """


for run in (
    compare, fit, resume, predict, join, update, unplug, info, report, serve, example, demo,
    reproduce,
):  # fmt: skip
    app.command(run.__name__, no_args_is_help=run is not demo)(run)
app.add_typer(federate, name="federate")


def main() -> None:
    """Run the command line."""
    app()
