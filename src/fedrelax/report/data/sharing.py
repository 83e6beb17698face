"""What left each node while it trained: counted from the public rows, the exchanges and the graph."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fedrelax.storage import SavedResult
from fedrelax.typing import Label

REVEALS = {
    "gaussian": "the mean and covariance of all nodes' inputs together",
    "marginals": "single values of single columns, never two values of one row",
    "uniform": "the smallest and the largest value of each column",
    "standard": "nothing about the inputs",
    "blend": (
        "points between two input rows, each at least a quarter of the way from both (where nodes draw "
        "their own, years, counts and other columns of steps hold values that occur)"
    ),
    "bootstrap": "whole input rows of some nodes and, by the predictions on them, nearly the labels",
    "given": "what whoever provided them chose to show, and nothing else about the nodes' inputs",
}
NOT_PRIVATE = (
    "Predictions on public rows are not a privacy guarantee: published attacks recover training "
    "inputs from them."
)
BESIDE = "This does not cover names and scales of columns, losses, or the saved models themselves."
BYTES = 8
"""A prediction is a number in double precision."""


@dataclass(frozen=True, eq=False)
class Sharing:
    """What every node sent to each of its neighbours, and how many neighbours it has."""

    public_rows: int
    exchanges: int
    """How often predictions on the public rows were sent: after the first training and every round."""
    per_neighbour: int
    """How many numbers went to one neighbour in all exchanges."""
    reveals: str
    """What the public rows tell about the nodes' inputs."""
    neighbours: dict[Label, int]
    """How many nodes with a model hear each node; those that a rewiring dropped are still sent to."""
    pooled: int
    """How many numbers a node said to each other node while the default learned and chose."""
    only_pooled: bool
    """Whether the models come from these rounds, so that no other predictions were sent."""
    promised: str
    """The differential privacy of what was sent, and what it does not cover; empty if there is none."""


def sharing_of(saved: SavedResult) -> Sharing:
    """Count what left the nodes of a saved result."""
    about, edges = saved.about, saved.edges
    public_rows, exchanges = int(about["public"]["rows"]), int(about["exchanges"])
    # where nodes have public rows of their own, they answer for these and for those of the neighbour
    both = about.get("objective") == "gtvmin" and about.get("public_for_each_node", False)
    own = {line["node"] for line in saved.models}
    ends = zip(edges["source"], edges["target"], strict=True)
    neighbours = Counter(label for pair in ends if own.issuperset(pair) for label in pair)
    promises = about.get("promises", ())
    words = "; ".join(f"{one['says']}. It protects {one['protects']}" for one in promises)
    unknown = "what fedrelax.public says about this way of drawing them"
    return Sharing(
        public_rows=public_rows,
        exchanges=exchanges,
        per_neighbour=public_rows * int(about["outputs"]) * (2 if both else 1) * exchanges,
        reveals=REVEALS.get(str(about["public"]["how"]), unknown),
        neighbours={label: neighbours[label] for label in saved.graph.labels if label in own},
        pooled=int(about.get("pooled_numbers", 0)),
        only_pooled=about.get("engine") in ("pooling", "boosting"),
        promised=f"Differential privacy of what each node sent: {words}. {BESIDE}" if words else "",
    )
