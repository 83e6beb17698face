"""Repeated random splits: on each, every way chooses its settings, trains, and is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from fedrelax.baselines import Baseline
from fedrelax.comparison.outcome import Comparison
from fedrelax.comparison.ways import Together, simple_ways, usual_ways, with_the_needed
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor, one_of
from fedrelax.evaluation import Measure, errors_of, get_measure
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.selection import FOLDS, fold_rows
from fedrelax.splits import FOLD_STREAM, TEST_STREAM, RowGroups, group_rows, training_mask
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.validation import check_count, check_number

FEWEST_SPLITS = 2
"""An interval needs two values."""

Estimator = FedRelaxRegressor | FedRelaxClassifier
RowsByNode = Mapping[Label, AnyArray]


def compare_ways(
    estimator: Estimator | Callable[[AnyArray], Estimator],
    X: FloatArray,
    y: AnyArray,
    nodes: Any,
    *,
    ways: Sequence[Baseline] | None = None,
    splits: int = 5,
    test_share: float = 0.2,
    folds: int = FOLDS,
    measure: str | Measure | None = None,
    groups: Any = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Comparison:
    """Compare ways of learning on random splits of the rows, to tell which one to use.

    In every split a share of each node's rows is held out for testing. On the others each way chooses
    its settings by validation on three of ``folds`` parts in turn (all ways on the same parts; with
    ``groups``, on every part), then trains on all of them. Test rows take no part in any of this, nor
    in drawing public rows.

    ``estimator`` gives the nodes' models, the graph, the public rows and the settings of FedRelax
    (not alpha, which is chosen); it may also be a function that makes one from the mask of a split's
    training rows, if the graph or the models depend on rows. ``ways`` defaults to
    ``usual_ways``; alone and together always take part, as the advice is about them. Ways that do
    not suit the network are left out, with the reason in ``refused``. ``measure`` is that of
    ``fedrelax.evaluation.evaluate``. With ``groups``, one value per row (days, patients), splits and
    folds hold out whole values, at all nodes; a node whose rows all have one value takes no part.

    ``progress`` is told how much is done, out of how much, and what is next. A KeyboardInterrupt
    after two splits ends the run with the splits that are complete.

    >>> from fedrelax.baselines import Alone
    >>> rng = np.random.default_rng(0)
    >>> X, nodes = rng.normal(size=(120, 5)), np.repeat(np.arange(12), 10)
    >>> y = X.sum(axis=1) + rng.normal(size=120)
    >>> found = compare_ways(FedRelaxRegressor(rounds=5), X, y, nodes, ways=[Alone()], splits=3)
    >>> found.ways, found.errors.shape
    (('together', 'alone'), (3, 2))
    """
    check_count("splits", splits, least=FEWEST_SPLITS)
    check_count("folds", folds, least=2)
    check_number("test_share", test_share, least=0.0, below=1.0)
    rows = group_rows(nodes, len(X))
    values = one_of(groups, None, len(X)).get("groups")
    if values is not None:
        rows = RowGroups.of({i: own for i, own in rows.items() if len(np.unique(values[own])) > 1})
    masks = _draw_splits(rows, splits, test_share, seed, values)
    y = np.asarray(y)
    X, content = (X, as_frame(X).astype(str)) if is_frame(X) else (np.asarray(X), X)
    table = _Table(estimator, X, y, nodes, rows, folds, seed, values)
    first, first_rows = table.estimator_for(masks[0])
    kind = "regression" if isinstance(first, FedRelaxRegressor) else "classification"
    table = replace(table, rows=rows.arranged(content, y, kind))  # as ``fit`` takes them
    asked = with_the_needed(
        usual_ways(first) if ways is None else ways, (simple_ways(first)[0], Together.of(first))
    )
    apart = values is not None  # whether folds hold out the same days (patients, ...) at all nodes
    asked = [
        replace(way, search=replace(way.open, apart=apart)) if isinstance(way, Together) else way
        for way in asked
    ]
    there = {label: index for label, index in table.part(masks[0]).items() if len(index)}
    network = first.network_of(first_rows, table.y, there, {}, seed)
    measure = get_measure(measure, network.kind)
    reasons = {way.name: way.unsupported_reason(network) for way in asked}
    compared = [way for way in asked if reasons[way.name] is None]
    for number, mask in enumerate(masks, start=1):
        classes = np.unique(table.y[mask]).tolist() if network.task.is_classification else []
        if len(classes) == 1:
            raise FedRelaxError(
                f"all training rows of split {number} have one class, {classes[0]!r}: the "
                "others are too rare to be split; lower test_share, or bring more rows"
            )
    done: list[list[Measured]] = []

    def tell(finished: int, name: str) -> None:
        if progress is not None:
            total = splits * len(compared)
            progress(len(done) * len(compared) + finished, total, f"split {len(done) + 1}: {name}")

    try:
        for number, mask in enumerate(masks):
            done.append(table.measure(measure, compared, mask, number, n_jobs, tell))
    except KeyboardInterrupt:
        if len(done) < FEWEST_SPLITS:
            raise
    return Comparison(
        measure=measure,
        ways=tuple(way.name for way in compared),
        errors=np.array([[one.error for one in split] for split in done]),
        node_errors=np.array(
            [[[one.by_node.get(i, np.nan) for i in rows] for one in split] for split in done]
        ),
        settings=[[one.settings for one in split] for split in done],
        nodes=tuple(rows),
        rows=np.array([(masks[0][i].sum(), (~masks[0][i]).sum()) for i in rows.values()]),
        refused={name: reason for name, reason in reasons.items() if reason is not None},
        planned=splits,
    )


class Measured(NamedTuple):
    """One way on one split."""

    error: float
    by_node: Mapping[Label, float]
    settings: dict[str, object]


@dataclass(frozen=True, eq=False)
class _Table:
    """The rows, and how to make a network of some of them."""

    estimator: Estimator | Callable[[AnyArray], Estimator]
    X: Any
    y: AnyArray
    nodes: Any
    rows: RowsByNode
    folds: int
    seed: int
    groups: AnyArray | None

    def part(self, mask: AnyArray) -> dict[Label, AnyArray]:
        """Return the row numbers of every node within the mask."""
        return {label: index[mask[index]] for label, index in self.rows.items()}

    def estimator_for(self, mask: AnyArray) -> tuple[Estimator, FloatArray]:
        """Return the estimator of a split, and all rows as its nodes share them."""
        made = self.estimator(mask) if callable(self.estimator) else clone(self.estimator)
        return made, made.prepare(self.X, self.nodes, mask)

    def measure(
        self,
        measure: Measure,
        ways: Sequence[Baseline],
        mask: AnyArray,
        number: int,
        n_jobs: int | None,
        tell: Callable[[int, str], None],
    ) -> list[Measured]:
        """Let every way choose, train and predict the test rows of one split."""
        train, test = self.part(mask), self.part(~mask)
        if self.groups is not None:  # a node may have no row outside the values held out
            train = {label: index for label, index in train.items() if len(index)}
            test = {label: test[label] for label in train}
        seed = self.seed + number  # each split draws public rows and folds of its own
        estimator, X = self.estimator_for(mask)
        network = estimator.network_of(X, self.y, train, {}, seed)
        rng = np.random.default_rng([seed, FOLD_STREAM])
        parts = fold_rows(train, self.folds, rng, self.groups)
        folds = [estimator.network_of(X, self.y, *part, seed) for part in parts]
        measured = []
        for finished, way in enumerate(ways):
            tell(finished, way.name)
            chosen = way.choose(network, folds, seed=seed, n_jobs=n_jobs)
            models = chosen.run(network, seed=seed, n_jobs=n_jobs).models
            errors = errors_of(measure, network.task, models, X, self.y, test)
            measured.append(Measured(*errors, chosen.settings()))
        tell(len(ways), "done")
        return measured


def _draw_splits(
    rows: RowsByNode,
    splits: int,
    share: float,
    seed: int,
    groups: AnyArray | None = None,
) -> list[AnyArray]:
    """Return the masks of the training rows, checked before any work is done.

    The first split is the one that ``fedrelax fit`` draws with the same seed.
    """
    rng = np.random.default_rng([seed, TEST_STREAM])
    masks: list[AnyArray] = [training_mask(rows, share, rng, groups) for _ in range(splits)]
    if masks[0].all():
        raise FedRelaxError(
            f"test_share={share:g} leaves no test row at any node, as all have too few rows; raise it"
        )
    if max(int(masks[0][index].sum()) for index in rows.values()) < 2:
        raise FedRelaxError(
            "every node has a single training row, so none can be held out to choose settings; "
            "lower test_share, or bring more rows"
        )
    return masks
