"""``fedrelax federate``: every site on its own machine, over Flower.

model : Models, separated by commas, given to the sites in turn.
"""

from __future__ import annotations

import shlex
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrelax.cli.config import command
from fedrelax.cli.console import Activity, Talk
from fedrelax.cli.flags import Dir
from fedrelax.cli.settings import parts_of

if TYPE_CHECKING:
    from fedrelax.federation.letters import Envelope

federate = typer.Typer(
    no_args_is_help=True,
    help="Run every site on its own machine: make the files, try it here, follow a run.",
)


@federate.command("init", no_args_is_help=True)
@command
def init(
    talk: Talk,
    directory: Dir,
    *,
    sites: str,
    target: str,
    task: str = "regression",
    model: str = "ridge",
) -> None:
    """Write a ready-made Flower app, the hub's settings, and a folder for every site.

    [bold]Example:[/bold] fedrelax federate init clinics --sites north,south,west --target days

    directory : Directory to write.
    sites : The sites' names, separated by commas.
    target : The column to predict.
    task : regression or classification.
    """
    from fedrelax.federation.files import write_federation

    names = parts_of(sites)
    write_federation(directory, names, target, task, parts_of(model), {"alpha": "auto"})
    place = shlex.quote(str(directory))
    talk.plain(
        f"Wrote {directory}: app/, hub/hub.toml and a folder for each of {len(names)} sites."
    )
    talk.plain("Next:")
    talk.command(f"fedrelax federate keys {place} --host hub.example.org")
    talk.plain("  move each folder of sites/ to its machine, and put its rows there as rows.csv")


@federate.command("keys", no_args_is_help=True)
@command
def keys(talk: Talk, directory: Dir, *, host: list[str] | None = None) -> None:
    """Make the hub's certificates and all sites' keys, or, in a site's folder, the keys of that site.

    Existing keys are kept. Only public keys (auth.pub, site.pub) ever need to leave a site.

    [bold]Example:[/bold] fedrelax federate keys clinics --host hub.example.org

    directory : Directory that init wrote, or the folder of one site.
    host : A name or address of the hub; can be repeated.
    """
    from fedrelax.federation.files import make_site_keys, write_keys

    if (directory / "site.toml").is_file():
        public = make_site_keys(directory)
        talk.plain(f"Wrote auth.key, auth.pub, site.key and site.pub in {directory}.")
        talk.plain("Neighbours pin this key under [keys] in their site.toml:")
        talk.plain(f"  {public}")
        talk.plain("and whoever runs the hub registers auth.pub: flwr supernode register auth.pub")
        return
    names = write_keys(directory, host or ["127.0.0.1", "localhost"])
    talk.plain(
        f"Wrote certificates/ and the keys of {', '.join(names)}, each pinned by the others."
    )


@federate.command("try")
@command
def try_(
    talk: Talk,
    table: Path | None = None,
    *,
    sites: Annotated[int, typer.Option(min=2, max=50)] = 3,
    node: str | None = None,
    target: str | None = None,
    model: str = "ridge",
    alpha: str = "auto",
    rounds: Annotated[int | None, typer.Option(min=0)] = None,
    out: Path | None = None,
) -> None:
    """Run a whole federation in one process, with throw-away keys.

    The hub and the sites have their own files and exchange the same sealed letters as on real machines,
    but without a network between them.

    [bold]Example:[/bold] fedrelax federate try visits.csv --node clinic --target days --sites 4

    table : Rows to divide among the sites. Default: made-up rows.
    sites : How many sites; with --node, those with most rows.
    node : The column that names each row's site. Default: rows are dealt out at random.
    target : The column to predict.
    alpha : How much neighbours count, or "auto".
    rounds : Maximum number of rounds. Default: as many as are needed, or 3 if a model is named.
    out : Directory for all files. Default: a temporary one.
    """
    if rounds is None and (alpha != "auto" or set(parts_of(model)) != {"ridge"}):
        rounds = 3
    from fedrelax.errors import FedRelaxError
    from fedrelax.extras import need

    need("cryptography", "flower")
    from fedrelax.federation.trial import made_up, parted, prepare, run_here

    if table is None and (target or node):
        raise FedRelaxError(
            "--target and --node name columns of a table, but no table is given; give one, or leave "
            "them out to try made-up rows"
        )
    if table is not None and target is None:
        raise FedRelaxError("--target is missing; name the column to predict")
    tables = made_up(sites) if table is None else parted(table, node, sites)
    home = out or Path(tempfile.mkdtemp(prefix="fedrelax-federation-")) / "federation"
    try:
        hub = {"alpha": alpha if alpha == "auto" else float(alpha)}
    except ValueError:
        raise FedRelaxError(f"alpha={alpha!r} must be a number or 'auto'") from None
    if rounds is not None:
        hub["rounds"] = rounds
    prepare(home, tables, target or "y", models=parts_of(model), hub=hub)
    where = run_here(home, partial(_show, talk.activity))
    _tell(where, home, alpha, talk)


def _show(activity: Activity, letter: Envelope) -> None:
    round = letter.head.get("round")
    activity.doing("Greeting the sites" if round is None else f"Round {round}")


def _tell(where: Path, home: Path, asked: str, talk: Talk) -> None:
    """Print the outcome of a run."""
    from fedrelax.errors import counted
    from fedrelax.evaluation.measures import measure_named
    from fedrelax.storage import read_result

    saved = read_result(where)
    about = saved.about
    federation = saved.metrics["federation"]
    measure = measure_named(federation["measure"])
    talk.plain("")
    for line in saved.nodes.to_dict("records"):
        talk.plain(
            f"  {line['node']} ({line['model']}, {counted(line['rows'], 'row')}): {measure.name} "
            f"{measure.show(line['alone'])} alone, {measure.show(line['together'])} together"
        )
    pooled = saved.choice is None and asked == "auto"
    alpha = "" if pooled else f", with alpha {about['alpha']:.3g}"
    talk.plain(f"Learned in {counted(about['rounds'], 'round')}{alpha}: {about['reason']}.")
    size = federation["most_bytes_per_edge_and_round"]
    talk.plain(f"Each edge carried at most {size:,} bytes per round each way, sealed.")
    for note in federation["notes"]:
        talk.plain(f"  {note}")
    if (where / "report.html").exists():
        talk.plain(f"Open {where / 'report.html'} in a browser: what the hub knows.")
    first = saved.nodes["node"].iloc[0]
    model = shlex.quote(str(home / "sites" / str(first) / "state" / "model"))
    talk.plain("Each site keeps its own model. To use it, on that machine:")
    talk.command(f"fedrelax predict {model} NEW_ROWS.csv --out predictions.csv")


@federate.command("status", no_args_is_help=True)
@command
def status(talk: Talk, directory: Dir) -> None:
    """Show, on the hub's machine, how far a run has got, and which sites were missing.

    [bold]Example:[/bold] fedrelax federate status clinics

    directory : Directory that init wrote.
    """
    from fedrelax.federation.settings import read_hub
    from fedrelax.federation.state import HUB, Folder

    kept = Folder(read_hub(directory / "hub" / "hub.toml").folder).read(HUB)
    if kept is None:
        talk.plain("No run is under way: none has begun, or the last one has ended.")
        return
    talk.plain(f"Round {len(kept['reports'])} is under way.")
    for note in kept["notes"]:
        talk.plain(f"  {note}")
