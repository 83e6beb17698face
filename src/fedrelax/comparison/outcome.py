"""What a comparison found: errors of every split, way and node, with intervals and the advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from fedrelax.baselines import MixedModel, Pooled, PooledNode
from fedrelax.evaluation import ALONE, TOGETHER, Interval, Measure, student_interval
from fedrelax.evaluation.evaluation import NAMES
from fedrelax.evaluation.measures import LEVEL, difference
from fedrelax.typing import AnyArray, DataFrame, FloatArray, Label


@dataclass(frozen=True, eq=False)
class Comparison:
    """The errors of all ways on the test rows of repeated random splits."""

    measure: Measure
    ways: tuple[str, ...]
    errors: FloatArray
    """Over all test rows of a split, (splits, ways)."""
    node_errors: FloatArray
    """Over each node's test rows, (splits, ways, nodes); NaN for a node without any."""
    settings: Sequence[Sequence[Mapping[str, object]]]
    """What validation chose, by split and way."""
    nodes: tuple[Label, ...]
    rows: AnyArray
    """Each node's training rows and test rows in every split, (nodes, 2)."""
    refused: Mapping[str, str]
    """The ways that cannot be used on this network, and why."""
    planned: int
    """How many splits were asked for; fewer were measured if the run was interrupted."""

    @property
    def splits(self) -> int:
        """How many splits were measured."""
        return len(self.errors)

    @property
    def training_rows(self) -> int:
        """How many training rows every split has."""
        return int(self.rows[:, 0].sum())

    @property
    def test_rows(self) -> int:
        """How many test rows every split has."""
        return int(self.rows[:, 1].sum())

    def error(self, way: str) -> Interval:
        """Return the mean error of a way over the splits; its interval ends at 0 and, for shares, at 1."""
        interval = self._interval(self._of(way))
        most = 1.0 if self.measure.share else np.inf
        return Interval(interval.mean, max(interval.low, 0.0), min(interval.high, most))

    def difference(self, way: str, other: str = TOGETHER) -> Interval:
        """Return the mean of a way's error minus another's, split by split."""
        return self._interval(difference(self._of(way), self._of(other)))

    def _of(self, way: str) -> FloatArray:
        return np.asarray(self.errors[:, self.ways.index(way)])

    def _interval(self, values: FloatArray) -> Interval:
        least = self.measure.least_variance(float(np.mean(values)), self.test_rows)
        overlap = self.test_rows / self.training_rows
        return student_interval(values, overlap=overlap, least_variance=least)

    @property
    def advice(self) -> str:
        """Federate, pool or stay alone, in words, with the numbers behind it."""
        errors = {way: self.error(way).mean for way in self.ways}
        gaps = {way: self.difference(way) for way in self.ways if way != TOGETHER}
        pool = best_pooling(errors, gaps)
        pooled = None if pool is None else self.difference(ALONE, pool)
        own = self.ways.index(TOGETHER)
        same = sum(bool(split[own].get("one_model")) for split in self.settings)
        together = ONE_MODEL if same > self.splits / 2 else NAMES[TOGETHER]
        return advise(self.measure, errors, gaps, pooled, self.splits < ENOUGH_SPLITS, together)

    @property
    def table(self) -> DataFrame:
        """A DataFrame with a line per way, the smallest error first: means and intervals.

        ``difference`` is the way's error minus that of learning together, which is better where it
        is positive.
        """
        import pandas as pd

        lines = [
            (way, *astuple(self.error(way)), *astuple(self.difference(way))) for way in self.ways
        ]
        names = ("error", "difference")
        columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
        return pd.DataFrame(lines, columns=["way", *columns]).sort_values(
            "error", kind="stable", ignore_index=True
        )

    def to_frame(self) -> DataFrame:
        """Return a DataFrame with a line per split and way: error and chosen settings."""
        import pandas as pd

        lines = [
            (split, way, self.errors[split, number], settings_text(self.settings[split][number]))
            for split in range(self.splits)
            for number, way in enumerate(self.ways)
        ]
        return pd.DataFrame(lines, columns=["split", "way", "error", "settings"])

    def nodes_to_frame(self) -> DataFrame:
        """Return a DataFrame with a line per node: its rows, and its mean error by way."""
        import pandas as pd

        frame = pd.DataFrame({"node": list(self.nodes)})
        frame["rows"], frame["test_rows"] = self.rows.T
        for number, way in enumerate(self.ways):
            frame[way] = pd.DataFrame(self.node_errors[:, number]).mean()
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "measure": self.measure.name,
            "nodes": len(self.nodes),
            "splits": self.splits,
            "splits_asked_for": self.planned,
            "training_rows": self.training_rows,
            "test_rows": self.test_rows,
            "interval": LEVEL,
            "ways": self.table.to_dict("records"),
            "not_compared": dict(self.refused),
            "advice": self.advice,
        }


def settings_text(settings: Mapping[str, object]) -> str:
    """Return settings as text; those without a value are left out.

    >>> settings_text({"alpha": 0.1 / 3, "rounds": 7, "rate": None})
    'alpha=0.0333333 rounds=7'
    """
    return " ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
        if value is not None
    )


FEDERATE = "Federate"
POOL_OR_FEDERATE = "Pool, if rows may be brought together; if they may not, federate"
POOL_OR_ALONE = "Pool, if rows may be brought together; if they may not, stay alone"
STAY_ALONE = "Stay alone"
MORE_SPLITS = "More splits are needed to tell"
ENOUGH_SPLITS, NOTABLE = 10, 0.05
"""With fewer splits, an error lower by this share but not clearly so asks for more of them."""
POOLING = {
    Pooled.name: NAMES[Pooled.name],
    PooledNode.name: "one pooled model with a column per node",
    MixedModel.name: "a mixed model of all rows",
}
"""The ways that need all rows in one place, and what sentences call them."""


ONE_MODEL = "one model for all"


def advise(
    measure: Measure,
    errors: Mapping[str, float],
    gaps: Mapping[str, Interval],
    alone_minus_pooled: Interval | None = None,
    few_splits: bool = False,
    together: str = NAMES[TOGETHER],
) -> str:
    """Return the advice and the numbers behind it.

    ``errors`` are the mean errors by way, ``gaps`` the intervals of each way's error minus that of
    learning together. To pool means ``best_pooling`` of the ways; ``alone_minus_pooled`` is the
    interval of the error alone minus that way's. One way is clearly better than another if the
    interval of their difference excludes zero. The advice is to pool if that is clearly better
    than learning together, and on average no worse than each node alone; or clearly better than
    each node alone where learning together is not. Otherwise, where learning together is not clearly
    better than each node alone, it is to stay alone, the simplest way; but with ``few_splits``, to take
    more if the mean error is notably lower. ``together`` names learning together: "one model for all" where
    the choice fell on that.

    >>> from fedrelax.evaluation import MEASURES
    >>> gaps = {"alone": Interval(1.0, 0.8, 1.2)}
    >>> print(advise(MEASURES["RMSE"], {"alone": 4.0, "together": 3.0}, gaps))
    Federate. Learning together has a lower RMSE than each node alone: 3 against 4 (difference -1, 95 % interval -1.2 to -0.8).
    """  # noqa: E501
    names = {**NAMES, **POOLING, TOGETHER: together}

    def compared(one: str, other: str, gap: Interval) -> str:
        first, second = names[one], names[other]
        start = f"{first[0].upper()}{first[1:]} has a {{side}} {measure.name} than {second}:"
        if gap.low <= 0 <= gap.high:
            start = f"The splits cannot tell {first} from {second}: the {measure.name} is"
        start = start.format(side="lower" if gap.mean < 0 else "higher")
        a, b = measure.show(errors[one]), measure.show(errors[other])
        size, ends = measure.gap(gap.mean), measure.between(gap.low, gap.high)
        return f"{start} {a} against {b} (difference {size}, 95 % interval {ends})."

    pool, together_helps = best_pooling(errors, gaps), gaps[ALONE].above_zero
    pool_beats_together = pool is not None and gaps[pool].below_zero
    sentences = [compared(TOGETHER, ALONE, -gaps[ALONE])]
    unsure = few_splits and gaps[ALONE].mean > NOTABLE * errors[ALONE]
    head = FEDERATE if together_helps else MORE_SPLITS if unsure else STAY_ALONE
    if pool is not None and together_helps:
        place = 0 if pool_beats_together else 1
        sentences.insert(place, compared(pool, TOGETHER, gaps[pool]))
        head = POOL_OR_FEDERATE if pool_beats_together else FEDERATE
    elif pool is not None and alone_minus_pooled is not None:
        sentences.insert(0, compared(pool, ALONE, -alone_minus_pooled))
        beats_both = pool_beats_together and alone_minus_pooled.mean > 0
        if beats_both:
            sentences.insert(0, compared(pool, TOGETHER, gaps[pool]))
        if beats_both or alone_minus_pooled.above_zero:
            head = POOL_OR_ALONE
    better = [way for way in gaps if way != ALONE and way not in POOLING and gaps[way].below_zero]
    if better:
        listed = ", ".join(f"{way} ({measure.show(errors[way])})" for way in better)
        sentences.append(f"Clearly better than {NAMES[TOGETHER]}: {listed}.")
    return f"{head}. {' '.join(sentences)}"


def best_pooling(errors: Mapping[str, float], gaps: Mapping[str, Interval]) -> str | None:
    """Return the pooling way with the smallest error; those clearly better than together come first.

    >>> gaps = {"pooled": Interval(-1.0, -1.5, -0.5), "mixed model": Interval(-1.2, -3.0, 0.6)}
    >>> best_pooling({"pooled": 2.0, "mixed model": 1.8}, gaps)
    'pooled'
    """
    ways = [way for way in POOLING if way in gaps]
    return min(ways, key=lambda way: (not gaps[way].below_zero, errors[way]), default=None)
