"""Choosing the settings of an estimator by cross-validation on the nodes' rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrelax.errors import FedRelaxError
from fedrelax.selection.choice import Choice
from fedrelax.selection.search import Line, search
from fedrelax.solvers import Result
from fedrelax.solvers.checks import check_count
from fedrelax.splits import deal, group_rows
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.wiring import Wiring

FOLDS, TRIES = 5, 3
"""Parts into which a node's rows are dealt, and how many of them are held out in turn."""
PATIENCE = 5
"""Rounds without a better validation loss that end a trial of models that may get worse again."""


def choose(
    estimator: Any,
    X: FloatArray,
    y: AnyArray,
    nodes: Any,
    *,
    alphas: Sequence[float] | None = None,
    wirings: Sequence[str | Wiring] | None = None,
    folds: int = FOLDS,
    tries: int | None = TRIES,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Choose alpha, wiring and rounds of a FedRelax estimator by cross-validation on the nodes' rows.

    Every node's rows are dealt into ``folds`` parts; each of the first ``tries`` parts (None: of all) is
    predicted by models that never saw it. Five parts rather than three: a network that finds its
    clusters with ten rows a node may not find them with seven, and what is chosen should suit ten. A
    node with fewer rows than folds still takes part with those it has.

    The loss is measured after every round, and a run may be stopped early: models that are refitted to
    refitted models can get worse again. (Linear least squares does not need that: it converges, and
    alpha does the rest.) Of a wiring only the rounds after its last stage count: half a
    wiring may look good with the few rows of a fold and is not what was meant.

    Simpler ways have the benefit of the doubt: coupling is chosen over training alone, a wiring over the
    fixed graph, and an earlier stop over running to the end, only if the loss is lower by more than one
    standard error of the difference, taken over nodes. A node with enough held-out rows to tell that
    it does better alone is named in ``Choice.alone``, and keeps the model that it had before.

    ``alphas`` defaults to ``usual_alphas``, or to the estimator's own alpha if that is a number;
    ``wirings`` to those that the estimator's ``wiring`` stands for.
    """
    check_count("folds", folds, least=2)
    rows = group_rows(nodes, len(X))
    parts = deal(rows, folds, np.random.default_rng(0))[:tries]
    if not parts:
        raise FedRelaxError(
            "every node has a single row, so none can be held out to choose alpha; give alpha itself"
        )
    rounds = estimator.most_rounds(list(rows))
    tried = [w.paced(rounds) if w else w for w in estimator.wirings_for(list(rows), wirings)]
    if alphas is None:
        given = estimator.alpha
        alphas = estimator.alphas_for(list(rows)) if isinstance(given, str) else (float(given),)
    early = not estimator.is_linear(list(rows))
    lines: list[Line] = [(None, 0.0)] if 0.0 in alphas and None not in tried else []
    lines += [(w, float(a)) for w in tried for a in alphas if a > 0 or w is None]

    def solve(fold: int, line: Line) -> Result:
        wiring, alpha = line
        settings = {"alpha": alpha, "wiring": wiring or "fixed", "rounds": rounds}
        trial = clone(estimator).set_params(**settings, patience=PATIENCE if early else None)
        result: Result = trial.solve(X, y, *parts[fold])
        return result

    choice = search(
        lines,
        list(rows),
        [np.array([len(held[label]) for label in rows]) for _, held in parts],
        solve,
        rounds=rounds,
        early=early,
        progress=progress,
    )
    return replace(choice, alone=tuple(dict.fromkeys((*estimator.alone, *choice.alone))))


def choose_alpha(
    estimator: Any,
    X: FloatArray,
    y: AnyArray,
    nodes: Any,
    alphas: Sequence[float] | None = None,
    folds: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Choose alpha and rounds with the estimator's own wiring, by all folds; see ``choose``."""
    rows = group_rows(nodes, len(X))
    alphas = estimator.alphas_for(list(rows)) if alphas is None else alphas
    return choose(estimator, X, y, nodes, alphas=alphas, folds=folds, tries=None, progress=progress)
