"""``fedrelax info``: what a saved result holds, without loading any model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedrelax.cli.console import speaking


def info(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Result directory, as fedrelax fit writes it.")
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Show what a result holds: models, graph, errors, and what left the nodes.

    [bold]Example:[/bold] fedrelax info result
    """
    with speaking(debug, quiet=json_) as talk:
        from fedrelax.report import report_data
        from fedrelax.report.terminal import evaluation_report, fact_table
        from fedrelax.storage import read_result

        saved = read_result(directory)
        if json_:
            talk.json(to_dict(saved))
            return
        talk.say(fact_table(facts(saved)))
        data = report_data(saved)
        if data.evaluation is not None:
            talk.say("", evaluation_report(data))
        for line in story(saved):
            talk.plain(line)
        talk.say("")
        talk.plain(privacy(saved))


def shared_numbers(saved: Any) -> dict[str, int]:
    """Return how many numbers a node sent to each neighbour during training."""
    from fedrelax.report.data.sharing import sharing_of

    shared = sharing_of(saved)
    return {
        "public_rows": shared.public_rows,
        "outputs": shared.outputs,
        "exchanges": shared.exchanges,
        "numbers_per_neighbour": shared.per_neighbour,
    }


def privacy(saved: Any) -> str:
    """Return the privacy that was promised, or that none was; and what an attack found, if one was run."""
    from fedrelax.report.data.sharing import NOT_PRIVATE, sharing_of

    shared = sharing_of(saved)
    return f"{shared.promised or NOT_PRIVATE} {shared.attacked}".strip()


SUMS = "sums over each node's rows (products of features and target), from which all was found"


def facts(saved: Any) -> dict[str, str]:
    """Return what is known about the result, as text."""
    from fedrelax.errors import counted, listing
    from fedrelax.report.data.rounding import coupling_text
    from fedrelax.report.data.sharing import sharing_of

    about, graph = saved.about, saved.graph
    kinds = saved.nodes["model"].value_counts()
    parts = len(graph.components())
    sent = shared_numbers(saved)
    without = len(graph) - len(saved.models)
    classes, rounds = about["classes"], counted(about["rounds"], "round")
    trust = ", ".join(about["types_to_trust"])
    return {
        "task": f"{about['task']} of {about['target_column'] or 'the target'}"
        + (f", classes {listing(classes, most=10)}" if classes else ""),
        "features": ", ".join(about["feature_names"]),
        "nodes": f"{len(saved.models)} with a model"
        + (f", {without} more in the graph" if without else ""),
        "models": ", ".join(f"{count} x {kind}" for kind, count in kinds.items()),
        "graph": f"{graph.n_edges} edges, mean degree {graph.degrees.mean():.3g}, "
        f"{parts} component{'s' * (parts != 1)}",
        "coupling": f"{coupling_text(about['alpha'])}, {rounds} ({about['reason']})",
        **({"found": str(about["choice"])} if about.get("choice") else {}),
        "left the nodes": SUMS
        if sharing_of(saved).only_sums
        else f"to each neighbour {sent['numbers_per_neighbour']:,} numbers per node: "
        f"predictions on {sent['public_rows']} public rows x {sent['outputs']} outputs x "
        f"{sent['exchanges']} exchanges" + _choosing(saved),
        "public rows": f"{about['public']['how']}; they reveal {sharing_of(saved).reveals}",
        "needs --trust": trust or "nothing",
        "made with": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }


def story(saved: Any) -> list[str]:
    """Return what has happened to the network since it was trained, one line per change."""
    from fedrelax.report.data.story import events_of

    lines = [
        f"  {event.when}  {event.text}"
        + ("" if event.error is None else f"; error before learning {event.error:.4g}")
        for event in events_of(saved)
    ]
    return ["", "Since it was trained:", *lines] if lines else []


def _choosing(saved: Any) -> str:
    if not saved.metrics.get("alpha_was_chosen"):
        return ""
    return " (and more of the same in each trial while alpha was chosen)"


def to_dict(saved: Any) -> dict[str, Any]:
    """Return everything as plain values, for JSON."""
    return {
        **saved.about,
        "metrics": saved.metrics,
        "config": saved.config,
        "edges": saved.graph.n_edges,
        "components": len(saved.graph.components()),
        "shared": shared_numbers(saved),
        "privacy": privacy(saved),
        "models": saved.models,
        "story": [] if saved.living is None else saved.living["story"],
        "ancestors": [] if saved.living is None else saved.living["ancestors"],
        "per_node": saved.nodes.to_dict("records"),
    }
