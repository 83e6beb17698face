"""Checkpoints of sites: what their models were fitted to, and what they have sent and heard.

Models themselves are not stored. One without memory is fitted again to the same terms with the same seed,
which gives the same model; one that trains on from its last fit says itself what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrelax.engines.base import of_shape
from fedrelax.errors import FedRelaxError
from fedrelax.models import LocalModel, Rows
from fedrelax.runtime import Site
from fedrelax.runtime.site import Answers
from fedrelax.typing import AnyArray, FloatArray, Label

Kept = tuple[LocalModel, Answers, Sequence[Rows]]
"""A model, its answers, and what it was fitted to."""
OWN = -1
"""The number of a site's own rows; public rows have those from 0."""


def unsupported_states(sites: Sequence[Site]) -> str | None:
    """Return which node's model has a memory that cannot be stored, or None."""
    for site in sites:
        model, continued = site.model, site.coupling.continued
        if not (model.forgets(continued) or model.recalls):
            return (
                f"node {site.label!r}: {model.name} continues from its last fit in every round, and its "
                "memory cannot be stored; let it start from scratch in every round (continued=False, "
                "warm_start=False), or run without a checkpoint"
            )
    return None


def packed_model(
    site: Site, model: LocalModel, answers: Answers, terms: Sequence[Rows]
) -> dict[str, Any]:
    """Return what is needed to rebuild a node's model; for one with memory, its answers too."""
    if model.forgets(site.coupling.continued):
        return {"terms": [packed_term(site, term) for term in terms]}
    return {"memory": model.memory(), "answers": list(answers.values())}


def made_again(
    sites: Sequence[Site],
    packed: Sequence[dict[str, Any]],
    round: int,
    fitted: Callable[[Sequence[Site], Sequence[Sequence[Rows]], int], Sequence[tuple[Any, Any]]],
    together: bool,
) -> list[Kept]:
    """Return the models of a round; those without memory are refitted, all ``together`` or in turn."""
    found: dict[Label, Kept] = {}
    problems: list[tuple[Site, list[Rows]]] = []
    for site, kept in zip(sites, packed, strict=True):
        if "terms" in kept:
            problems.append((site, [term_from(site, *term) for term in kept["terms"]]))
        else:
            model, asked = site.model.remembering(kept["memory"]), site.inputs(round).items()
            answers = {
                key: _answer(site, rows, answer)
                for (key, rows), answer in zip(asked, kept["answers"], strict=True)
            }
            found[site.label] = model, answers, []
    for batch in [problems] if together else [[problem] for problem in problems]:
        own, terms = [site for site, _ in batch], [terms for _, terms in batch]
        for site, problem, made in zip(own, terms, fitted(own, terms, round), strict=True):
            found[site.label] = (*made, problem)
    return [found[site.label] for site in sites]


def packed_term(site: Site, term: Rows) -> tuple[Any, Any, Any, bool]:
    """Return rows (a number for those that the site has), targets, weights (one number if equal), and
    whether own loss."""
    known = {id(X): k for k, X in enumerate(_public_sets(site))} | {id(site.node.X): OWN}
    target = None if term.target is site.target else term.target
    equal = len(term.weight) > 0 and bool((term.weight == term.weight[0]).all())
    weight = float(term.weight[0]) if equal else term.weight
    return known.get(id(term.X), term.X), target, weight, term.loss == site.coupling.loss


def term_from(site: Site, rows: Any, target: Any, weight: Any, own_loss: bool) -> Rows:
    """Return what ``packed_term`` described, or refuse what does not fit the site."""
    X = rows if isinstance(rows, np.ndarray) else [*_public_sets(site), site.node.X][rows]
    if X.shape[1:] != site.node.X.shape[1:]:
        raise FedRelaxError(f"the rows of node {site.label!r} have different columns")
    y: FloatArray = site.target if target is None else target
    w: FloatArray = np.full(len(X), weight) if isinstance(weight, float) else weight
    of_shape(y, (len(X), site.task.n_outputs), f"targets of node {site.label!r}")
    if (of_shape(w, (len(X),), f"weights of node {site.label!r}") < 0).any():
        raise FedRelaxError(f"node {site.label!r} has a negative weight")
    return Rows(X, y, w, site.coupling.loss if own_loss else site.coupling.discrepancy.plain)


def _public_sets(site: Site) -> list[AnyArray]:
    common = site.public.common
    if common is not None:
        return [common]
    return [site.public.of(label) for label in (site.label, *site.neighbours)]


# What was sent and heard


def packed_words(site: Site) -> tuple[Any, ...]:
    """Return what a site has sent and heard; an answer that many have heard is written once."""
    return dict(site.shared), dict(site.received), float(site.change), site.consensus, site.steps


def take_words(
    site: Site, shared: Any, received: Any, change: Any, consensus: Any, steps: Any
) -> None:
    """Restore what a site has sent and heard."""
    of, rows = site.public.of, site.public.of(site.label)
    site.shared = {j: _answer(site, of(j), answer) for j, answer in shared.items()}
    site.received = {(j, k): _answer(site, of(k), answer) for (j, k), answer in received.items()}
    site.change = float(change)
    site.consensus = None if consensus is None else _answer(site, rows, consensus)
    site.steps = [(_answer(site, rows, x), _answer(site, rows, image)) for x, image in steps]


def _answer(site: Site, rows: AnyArray, answer: Any) -> FloatArray:
    return of_shape(answer, (len(rows), site.task.n_outputs), f"answers of node {site.label!r}")
