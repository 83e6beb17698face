"""``python -m benchmarks.speed``: speed, as ratios of times from one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from fedrelax.cli.console import Talk, speaking

app = typer.Typer(
    no_args_is_help=True, help="Measure speed on this machine, as ratios of times from one run."
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


@app.command("linear")
def linear(
    nodes: Annotated[int, typer.Option(min=2, help="How many nodes.")] = 10_000,
    features: Annotated[int, typer.Option(min=1, help="Features per node.")] = 10,
    degree: Annotated[float, typer.Option(min=1, help="Mean number of neighbours.")] = 10.0,
    public: Annotated[
        str,
        typer.Option(
            help="[bold]common[/bold]: one public set; [bold]per-node[/bold]: one per node."
        ),
    ] = "common",
    scaling: Annotated[
        str,
        typer.Option(help="Network sizes for a scaling table, e.g. 10000,100000; empty: no table."),
    ] = "",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time networks of linear models: FedRelaxRegressor.fit, and the bare engine for comparison.

    Prints the time and memory of fit, and its time as a multiple of the engine's; for the engine, the
    rounds and time to a relative residual of 1e-8, and the time of a round against that of copying the
    bytes it must move. Every node has 10 rows.

    [bold]python -m benchmarks.speed linear --nodes 200000 --features 10[/bold]
    """
    with speaking(debug, quiet=as_json) as talk:
        from benchmarks.speed.linear import measure
        from benchmarks.speed.linear import scaling as scaling_table
        from fedrelax.validation import check_choice

        check_choice("public", public, ("common", "per-node"))
        sizes = _sizes(scaling)
        settings: dict[str, Any] = {"degree": degree, "public": public}
        show = _measuring(talk)
        found = measure(nodes, features, progress=show, **settings)
        if sizes:
            found["scaling"] = scaling_table(sizes, features, progress=show, **settings)
        _print(talk, found, as_json)


def _measuring(talk: Talk) -> Callable[[str], None]:
    """Return what shows the part that is being measured."""
    talk.activity.doing("Measuring")
    return lambda part: talk.activity.doing(f"Measuring: {part}")


def _sizes(text: str) -> list[int]:
    from fedrelax.errors import FedRelaxError

    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [0]
    if found and (len(found) < 2 or min(found) < 2):
        raise FedRelaxError(
            f"--scaling {text!r} must be two or more whole numbers of at least 2, e.g. 1000,10000"
        )
    return found


def _print(talk: Talk, found: dict[str, Any], as_json: bool) -> None:
    """Print one JSON object, or a table per part."""
    if as_json:
        talk.json(found)
        return
    from rich.table import Table

    for title, values in found.items():
        if title == "scaling":
            talk.say(f"[bold]scaling[/bold]: seconds grow as n^{values['exponent']:.2f}")
            table = Table(*values["lines"][0])
            for line in values["lines"]:
                table.add_row(*(_text(value) for value in line.values()))
        else:
            table = Table("quantity", "value", title=title)
            for name, value in values.items():
                table.add_row(name.replace("_", " "), _text(value))
        talk.say(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@app.command("wiring")
def wiring(
    nodes: Annotated[int, typer.Option(min=10, help="How many nodes.")] = 10_000,
    features: Annotated[int, typer.Option(min=1, help="Features per node.")] = 10,
    degree: Annotated[int, typer.Option(min=2, help="Nearest neighbours of a node.")] = 10,
    rounds: Annotated[int, typer.Option(min=24, help="Rounds of each run.")] = 200,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time what rewiring adds to a run: the same rounds with a fixed and with a rewired graph."""
    with speaking(debug, quiet=as_json) as talk:
        from benchmarks.speed.wiring import cost

        _measuring(talk)("three pairs of runs")
        _print(talk, {"wiring": cost(nodes, features, degree, rounds)}, as_json)


@app.command("nets")
def nets(
    nodes: Annotated[int, typer.Option(min=2, help="How many nodes.")] = 150,
    steps: Annotated[int, typer.Option(min=1, help="Training steps per round.")] = 10,
    rounds: Annotated[
        int, typer.Option(min=2, help="Rounds one by one; four times as many at once.")
    ] = 5,
    scaling: Annotated[
        str, typer.Option(help="Network sizes for a scaling table, all at once; empty: no table.")
    ] = "150,500,1000,2000",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time nets of one architecture: all nodes trained at once against one by one, in one run.

    Every node has a perceptron 10-32-1 and 10 rows; all share 100 public rows.
    """
    with speaking(debug, quiet=as_json) as talk:
        from benchmarks.speed.nets import against_loop
        from benchmarks.speed.nets import scaling as scaling_table

        sizes = _sizes(scaling)
        show = _measuring(talk)
        found: dict[str, Any] = {"nets": against_loop(nodes, steps, rounds, progress=show)}
        if sizes:
            found["scaling"] = scaling_table(sizes, steps, progress=show)
        _print(talk, found, as_json)


@app.command("trees")
def trees(
    scaling: Annotated[
        str, typer.Option(help="Network sizes for a scaling table, depth 5; empty: no table.")
    ] = "300,3000",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time a round with trees and other models as a multiple of their bare fit and predict.

    Every node has 20 rows of its own and 200 public ones, with 10 features. The first table has the time
    and memory of networks of trees by the number of nodes.
    """
    with speaking(debug, quiet=as_json) as talk:
        from benchmarks.speed.trees import overhead
        from benchmarks.speed.trees import scaling as scaling_table

        sizes = _sizes(scaling)
        show = _measuring(talk)
        found: dict[str, Any] = {}
        if sizes:
            found["scaling"] = scaling_table(sizes, progress=show)
        found["overhead"] = overhead(progress=show)
        _print(talk, found, as_json)


if __name__ == "__main__":
    app()
