"""Did it help? Each node's error alone, pooled and together: measured, and what the numbers say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.baselines import Pooled
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation.measures import (
    Interval,
    Measure,
    difference,
    get_measure,
    measure_named,
    student_interval,
)
from fedrelax.models import LocalModel, Task, adapt
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, DataFrame, FloatArray, Label

WAYS = ALONE, POOLED, TOGETHER = "alone", "pooled", "together"
"""Each node's model on its own rows; the same kind of model on everybody's rows; over the graph."""
NAMES = {ALONE: "each node alone", POOLED: "one pooled model", TOGETHER: "learning together"}
LITTLE = 1.0
"""A change of less than this many percent is called little."""
STAYED = "Each node stayed alone"
HEADLINES = {
    TOGETHER: ("Learning together helped", "Learning together hurt", "No clear difference"),
    POOLED: (
        "One model for all won",
        "One model for all lost",
        "One model for all, no clear difference",
    ),
}
"""Where the error is clearly lower than alone, clearly higher, and neither."""
NO_BETTER = "coupled models, one per node, did no better on held-out training rows"


@dataclass(frozen=True)
class Gap:
    """By how much the error together is lower than another way's: the mean over ``nodes`` nodes."""

    nodes: int
    interval: Interval | None
    """None for fewer than two nodes."""
    better: int
    worse: int
    equal: int

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes are better together, worse, and equal."""
        return {"better": self.better, "worse": self.worse, "equal": self.equal}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Errors on test rows: ``nodes`` has a line per node, ``errors`` the error over all rows by way.

    ``nodes`` is a DataFrame: node, model, rows, test_rows, alone, pooled, together, and gain: by how
    many percent the error together is lower than alone. Nodes without test rows have NaN.
    """

    measure: Measure
    nodes: DataFrame
    errors: Mapping[str, float]
    way: str = TOGETHER
    """What ``together`` is: coupled models, or POOLED or ALONE where the choice fell on these."""

    @classmethod
    def of(
        cls, measure: Measure, nodes: DataFrame, errors: Mapping[str, float], way: str = TOGETHER
    ) -> Evaluation:
        """Return an evaluation of lines that lack the column of gains."""
        gain = gains(nodes[ALONE].to_numpy(), nodes[TOGETHER].to_numpy())
        return cls(measure, nodes.assign(gain=gain), errors, way)

    @classmethod
    def saved(cls, metrics: Mapping[str, Any], nodes: DataFrame) -> Evaluation | None:
        """Return the evaluation whose ``to_dict`` and ``nodes`` were saved, or None if there was none."""
        if metrics.get("errors") is None:
            return None
        errors = {w: math.nan if e is None else float(e) for w, e in metrics["errors"].items()}
        way = metrics.get("way", TOGETHER)
        return cls(measure_named(metrics["measure"]), nodes, errors, way)

    def with_untested(self, lines: DataFrame) -> Evaluation:
        """Return this evaluation with further lines (node, model), of nodes that were not measured."""
        import pandas as pd

        if not len(lines):
            return self
        nodes = pd.concat([self.nodes, lines.assign(rows=0, test_rows=0)], ignore_index=True)
        return replace(self, nodes=nodes)

    @property
    def tested(self) -> DataFrame:
        """The lines of the nodes with test rows."""
        return self.nodes[self.nodes["test_rows"] > 0]

    @property
    def gain(self) -> float:
        """By how many percent the error over all test rows is lower than alone."""
        return float(gains(self.errors[ALONE], self.errors[TOGETHER]))

    def against(self, way: str) -> Gap:
        """Compare together with another way, node by node."""
        tested = self.tested
        gap = difference(tested[way].to_numpy(float), tested[TOGETHER].to_numpy(float))
        interval = None
        if len(gap) > 1:
            rows = int(tested["test_rows"].sum())
            least = len(gap) * self.measure.least_variance(float(gap.mean()), rows)
            interval = student_interval(gap, least_variance=least)
        better, worse, equal = (int(part.sum()) for part in (gap > 0, gap < 0, gap == 0))
        return Gap(len(gap), interval, better, worse, equal)

    def ranked(self) -> DataFrame:
        """Return the lines, the largest gain first; an error that grew from 0 counts as the largest loss.

        Nodes without test rows come last.
        """
        gain = self.nodes["gain"].where(self.nodes["gain"].notna(), -np.inf)
        order = self.nodes.assign(gain=gain.where(self.nodes["test_rows"] > 0))
        order = order.sort_values("gain", ascending=False, na_position="last", kind="stable")
        return self.nodes.loc[order.index]

    @property
    def sign(self) -> int:
        """1 if the error is clearly lower than alone, -1 if it is clearly higher, else 0."""
        interval = self.against(ALONE).interval
        if interval is None:
            return int(self.gain > 0) - int(self.errors[TOGETHER] > self.errors[ALONE])
        return int(interval.above_zero) - int(interval.below_zero)

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.way == ALONE:
            return STAYED
        helped, hurt, unclear = HEADLINES[self.way]
        return {1: helped, -1: hurt, 0: unclear}[self.sign]

    @property
    def verdict(self) -> str:
        """One or two sentences about the errors over all test rows."""
        name, gain = self.measure.name, self.gain
        alone, pooled, ours = (self.measure.show(self.errors[way]) for way in WAYS)
        if self.way == ALONE:
            return f"{STAYED}: the {name} is {ours}; one pooled model has {pooled}."
        who, now, rest = "Learning together", "together", f"one pooled model has {pooled}"
        if self.way == POOLED:
            who, now, rest = "One model for all", "with it", NO_BETTER
        if self.errors[ALONE] == self.errors[TOGETHER]:
            return f"{who} made no difference: the {name} is {ours} alone and {now}; {rest}."
        if not gain >= LITTLE:
            what = "made little difference" if gain > 0 else "did not help here"
            return f"{who} {what}: the {name} is {ours} {now} and {alone} alone; {rest}."
        if self.way == TOGETHER and self.errors[POOLED] < self.errors[TOGETHER] and pooled != ours:
            rest = f"one pooled model, with all rows in one place, does better still: {pooled}"
        if self.way == POOLED:
            who += " won: it" if self.sign > 0 else " was chosen: it"
        return f"{who} lowered the {name} from {alone} (alone) to {ours}, by {gain:.0f} %; {rest}."

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "measure": self.measure.name,
            "test_rows": int(self.nodes["test_rows"].sum()),
            "errors": dict(self.errors),
            "gain": self.gain,
            "nodes_against_alone": self.against(ALONE).counts,
            "nodes_against_pooled": self.against(POOLED).counts,
            "way": self.way,
            "headline": self.headline,
            "verdict": self.verdict,
        }


def gains(before: FloatArray | float, after: FloatArray | float) -> FloatArray:
    """Return by how many percent errors went down; NaN where an error grew from 0.

    >>> gains(np.array([4.0, 0.0, 0.0]), np.array([3.0, 0.0, 1.0]))
    array([25.,  0., nan])
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = 100.0 * (before - after) / before
    return np.where(np.isfinite(gain), gain, np.where(before == after, 0.0, np.nan))


def percent(gain: float) -> str:
    """Return a gain with its sign.

    >>> percent(12.34), percent(-3.0), percent(-0.4), percent(0.0), percent(float("nan"))
    ('+12 %', '-3 %', '-0.4 %', '0 %', '-')
    >>> percent(-np.inf)  # the error alone is 0
    'from 0'
    """
    if not np.isfinite(gain):
        return "from 0" if gain < 0 else "-"
    if abs(gain) < 0.05:
        return "0 %"
    return f"{gain:+.1f} %" if abs(gain) < 0.5 else f"{gain:+.0f} %"


def errors_of(
    measure: Measure,
    task: Task,
    models: Mapping[Label, LocalModel],
    X: FloatArray,
    y: AnyArray,
    rows: Mapping[Label, AnyArray],
) -> tuple[float, dict[Label, float]]:
    """Return the error of the nodes' models over all their ``rows`` of X and y, and each node's."""
    scores = {
        label: measure.per_row(task, y[index], models[label].predict(X[index]))
        if len(index)
        else np.empty(0)
        for label, index in rows.items()
    }
    by_node = {label: measure.of_rows(score) for label, score in scores.items()}
    return measure.of_rows(np.concatenate(list(scores.values()))), by_node


def evaluate(
    fitted: FedRelaxRegressor | FedRelaxClassifier,
    train: tuple[FloatArray, AnyArray, Any],
    test: tuple[FloatArray, AnyArray, Any],
    measure: str | Measure | None = None,
) -> Evaluation:
    """Measure a fitted estimator on ``test``, each node alone, pooled and together.

    ``train`` and ``test`` are (X, y, nodes). ``alone`` is the node's model trained on its own rows,
    ``pooled`` the same kind trained on everybody's, ``together`` that of the estimator. ``measure``
    is one of ``fedrelax.evaluation.MEASURES`` or a ``Measure``; without it, the RMSE of numbers and
    the error rate of classes.
    """
    import pandas as pd

    X, y, nodes = train
    X_test, y_test, nodes_test = test
    y, y_test = np.asarray(y), np.asarray(y_test)  # rows go by position, not by an index
    result = fitted.result_
    task, rows = result.task, group_rows(nodes, len(X))
    measure = get_measure(measure, task.kind)
    held = group_rows(nodes_test, len(X_test))
    X, X_test = fitted.common_rows(X, nodes), fitted.common_rows(X_test, nodes_test)
    strange = [label for label in held if label not in rows]
    if strange:
        raise FedRelaxError(
            f"node {strange[0]!r} has test rows and no training rows; leave its rows out"
        )
    ways = {**_apart_and_pooled(fitted, X, y, rows), TOGETHER: result.local_models}
    measured = {
        way: errors_of(measure, task, models, X_test, y_test, held) for way, models in ways.items()
    }
    lines = {
        "node": list(rows),
        "model": [result.local_models[label].name for label in rows],
        "rows": [len(index) for index in rows.values()],
        "test_rows": [len(held.get(label, ())) for label in rows],
    }
    for way, (_, by_node) in measured.items():
        lines[way] = [by_node.get(label, np.nan) for label in rows]
    errors = {way: total for way, (total, _) in measured.items()}
    way, default = TOGETHER, fitted.default_
    if fitted.alpha_ == 0 or set(result.stayed) == set(result.local_models):
        way = ALONE
    elif default is not None and default.is_one_model:
        way = POOLED
    return Evaluation.of(measure, pd.DataFrame(lines), errors, way)


def _apart_and_pooled(
    fitted: FedRelaxRegressor | FedRelaxClassifier,
    X: FloatArray,
    y: AnyArray,
    rows: Mapping[Label, AnyArray],
) -> dict[str, Mapping[Label, LocalModel]]:
    """Return each node alone and pooled: the same kinds of models, each with the penalty that suits it."""
    result = fitted.result_
    default = fitted.default_
    network = fitted.network_of(X, y, rows, {})
    if default is None:
        return {ALONE: result.alone, POOLED: Pooled().run(network).models}
    alone, pooled = default.references(network)
    return {
        ALONE: {
            label: adapt(model, result.task)
            for label, model in zip(result.local_models, alone, strict=True)
        },
        POOLED: dict.fromkeys(rows, adapt(pooled, result.task)),
    }
