"""``fedrelax bench``: how fast, printed as ratios from one run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from fedrelax.cli.console import Talk, speaking

bench = typer.Typer(
    no_args_is_help=True, help="Measure the speed on this machine, as ratios from one run."
)

SMALL = 500
"""Up to so many nodes the plain PyTorch loop is run for comparison."""


@bench.command("linear")
def linear(
    nodes: Annotated[int, typer.Option(min=2, help="How many nodes.")] = 10_000,
    features: Annotated[int, typer.Option(min=1, help="Features per node.")] = 50,
    degree: Annotated[float, typer.Option(min=1, help="Mean number of neighbours.")] = 10.0,
    public: Annotated[
        str,
        typer.Option(help="[bold]common[/bold]: one public set; [bold]per-node[/bold]: one each."),
    ] = "common",
    dtype: Annotated[str, typer.Option(help="f64 or f32.")] = "f64",
    scaling: Annotated[
        str,
        typer.Option(help="Sizes for the scaling table, e.g. 10000,100000,1000000; empty: none."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """The vectorised engine for networks of linear models.

    Prints the time of a round and of a copy of the bytes that it must move, rounds and time to a
    relative residual of 1e-6, memory, and with at most 500 nodes a plain PyTorch loop beside it.

    [bold]fedrelax bench linear --nodes 200000 --features 10[/bold]
    """
    with speaking(debug, quiet=as_json) as talk:
        from fedrelax.bench.linear import DTYPES, acceleration, against_autograd, engine
        from fedrelax.bench.linear import scaling as scaling_table
        from fedrelax.errors import FedRelaxError
        from fedrelax.solvers.checks import check_choice

        check_choice("--public", public, ("common", "per-node"))
        check_choice("--dtype", dtype, tuple(DTYPES))
        sizes = _sizes(scaling)
        if sizes and len(sizes) < 2:
            raise FedRelaxError("--scaling needs at least two sizes, e.g. 10000,100000")
        settings: dict[str, Any] = {"degree": degree, "public": public, "dtype": dtype}
        with talk.progress() as bar:
            task = bar.add_task("starting", total=None, numbers="")

            def show(step: str, done: int, total: int) -> None:
                bar.update(task, description=step, completed=done, total=total or None)

            found: dict[str, Any] = {"engine": engine(nodes, features, progress=show, **settings)}
            if nodes <= SMALL:
                show("plain PyTorch loop", 0, 0)
                found["autograd"] = against_autograd(features, nodes)
                found["acceleration"] = acceleration(features, nodes)
            if sizes:
                found["scaling"] = scaling_table(sizes, features, progress=show, **settings)
        if as_json:
            typer.echo(json.dumps(found, indent=2))
        else:
            _show(talk, found)


def _sizes(text: str) -> list[int]:
    from fedrelax.errors import FedRelaxError

    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise FedRelaxError(
            f"--scaling={text!r} must be whole numbers with commas between"
        ) from None


def _show(talk: Talk, found: dict[str, Any]) -> None:
    from rich.table import Table

    for title, values in found.items():
        if title == "scaling":
            talk.say(f"[bold]scaling[/bold]: seconds grow as n^{values['exponent']:.2f}")
            table = Table(*values["lines"][0])
            for line in values["lines"]:
                table.add_row(*(_text(value) for value in line.values()))
        else:
            table = Table("what", "value", title=title)
            for name, value in values.items():
                table.add_row(name.replace("_", " "), _text(value))
        talk.say(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@bench.command("wiring")
def wiring(
    nodes: Annotated[int, typer.Option(min=10, help="How many nodes.")] = 10_000,
    features: Annotated[int, typer.Option(min=1, help="Features per node.")] = 10,
    degree: Annotated[int, typer.Option(min=2, help="Nearest neighbours of a node.")] = 10,
    rounds: Annotated[int, typer.Option(min=24, help="Rounds of either run.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """What rewiring adds to a run: the same rounds with a fixed and with a rewired graph."""
    with speaking(debug, quiet=as_json) as talk:
        from fedrelax.bench.wiring import cost

        found = cost(nodes, features, degree, rounds)
        if as_json:
            typer.echo(json.dumps(found, indent=2))
        else:
            _show(talk, {"wiring": found})


@bench.command("nets")
def nets(
    nodes: Annotated[int, typer.Option(min=2, help="How many nodes.")] = 150,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of a round.")] = 10,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of a run one by one.")] = 5,
    scaling: Annotated[
        str, typer.Option(help="Sizes for the scaling table, batched only; empty: none.")
    ] = "150,500,1000,2000",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Nets of one architecture: all nodes at once against one by one, in one run.

    Every node has a perceptron 10-32-1 and 10 rows; all share 100 public rows.
    """
    with speaking(debug, quiet=as_json) as talk:
        from fedrelax.bench.nets import against_loop
        from fedrelax.bench.nets import scaling as scaling_table
        from fedrelax.errors import FedRelaxError

        sizes = _sizes(scaling)
        if sizes and (len(sizes) < 2 or min(sizes) < 2):
            raise FedRelaxError("--scaling needs at least two sizes of at least 2, e.g. 150,1000")
        with talk.progress() as bar:
            task = bar.add_task("starting", total=None, numbers="")

            def show(step: str) -> None:
                bar.update(task, description=step)

            found: dict[str, Any] = {"nets": against_loop(nodes, steps, rounds, progress=show)}
            if sizes:
                found["scaling"] = scaling_table(sizes, steps, progress=show)
        if as_json:
            typer.echo(json.dumps(found, indent=2))
        else:
            _show(talk, found)
