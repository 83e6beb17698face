"""Some of the nodes on a worker: what it holds, what a round changes, and the refits there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedrelax.engines.sites.refits import AnswerKey, Answers, Refit, Refits, here
from fedrelax.losses import Loss
from fedrelax.models import BatchedModel, LocalModel, Rows
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, Label


@dataclass(frozen=True)
class HomeNode:
    """What a worker holds of one node: its untrained model and its rows."""

    label: Label
    model: LocalModel
    rows: dict[str, Any]


@dataclass(frozen=True)
class Home:
    """What a worker holds while a network is trained: some nodes, and public rows."""

    nodes: list[HomeNode]
    public: dict[Label | None, AnyArray]
    """By owner; the common rows are under None."""


class Lies(NamedTuple):
    """A reference to rows in ``Home``: a node's own rows, or someone's public rows."""

    public: bool
    name: Any


class Term(NamedTuple):
    """``Rows`` with references to what is in ``Home``; equal weights are sent as one number."""

    X: Any
    target: Any
    weight: FloatArray | float
    loss: Loss


class Kept(NamedTuple):
    """A reference to a model kept on the worker: which list of models, and where in it."""

    batch: int
    number: int


class Change(NamedTuple):
    """What a round changes for a node."""

    node: int
    model: LocalModel | Kept | None
    """None for the untrained model in ``Home``."""
    terms: list[Term]
    inputs: dict[AnswerKey, Any]
    seed: int
    continued: bool


def refit_part(
    home: Home, changes: Sequence[Change], *kept: Sequence[LocalModel | None]
) -> tuple[list[LocalModel | None], list[tuple[Answers, bool]]]:
    """Refit some of the nodes on a worker; return models, which stay there, and answers.

    Each answer comes with whether its model stays. A fit that was only noted leaves no model: its trees
    are regrown where they are needed. Warnings are silenced: they would be repeated for every fit.
    """
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Refits(here)([_task(home, change, kept) for change in changes])
    noted = [isinstance(model, BatchedModel) and model.only_noted for model, _ in found]
    models = [None if none else model for (model, _), none in zip(found, noted, strict=True)]
    return models, [(answers, not none) for (_, answers), none in zip(found, noted, strict=True)]


def _task(home: Home, change: Change, kept: Sequence[Sequence[LocalModel | None]]) -> Refit:
    node = home.nodes[change.node]

    def found(rows: Any) -> Any:
        if isinstance(rows, Lies):
            rows = home.public[rows.name] if rows.public else node.rows[rows.name]
        return _writable(rows)

    model = change.model
    if isinstance(model, Kept):
        model = kept[model.batch][model.number]
    model = node.model if model is None else model
    terms = []
    for X, target, weight, loss in change.terms:
        rows = found(X)
        full = np.full(len(rows), weight) if isinstance(weight, float) else found(weight)
        terms.append(Rows(rows, found(target), full, loss))
    inputs = {key: found(rows) for key, rows in change.inputs.items()}
    return Refit(node.label, model, terms, inputs, change.seed, change.continued)


def _writable(rows: Any) -> Any:
    """Return a copy of a read-only array (in shared memory), which some models cannot use."""
    if isinstance(rows, np.ndarray) and not rows.flags.writeable:
        return rows.copy(order="K")
    return rows
