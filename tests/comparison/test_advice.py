"""Federate, pool or stay alone: what a comparison of ways tells the user, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrelax.baselines import Pooled, PooledNode
from fedrelax.comparison import (
    Comparison,
    Together,
    advise,
    compare_ways,
    usual_ways,
    ways_by_name,
)
from fedrelax.datasets import clustered
from fedrelax.evaluation import MEASURES, Interval, student_interval

from .tables import apart, few, flat, linear

LINE = Interval(0.0, 0.0, 0.0)


def test_clusters_of_alike_nodes_should_federate():
    network = clustered((15, 15), m=10, m_val=0, d=5, sigma=1.0, p_out=0.0, random_state=0)
    found = compare_ways(linear(network.graph), *flat(network), ways=[Pooled()], splits=5)
    assert found.difference("alone").above_zero and found.difference("pooled").above_zero
    assert found.advice.startswith("Federate.")


def test_nodes_with_nothing_in_common_should_stay_alone():
    found = compare_ways(linear(), *apart(), ways=[Pooled()], splits=4)
    assert found.advice.startswith("Stay alone.")
    assert found.difference("pooled", "alone").above_zero


def test_alike_nodes_lose_nothing_by_pooling():
    network = clustered((12,), m=10, m_val=0, d=5, sigma=1.0, random_state=1)
    found = compare_ways(linear(network.graph), *flat(network), ways=[Pooled()], splits=5)
    assert found.error("pooled").mean <= found.error("together").mean
    assert found.difference("alone", "pooled").above_zero
    assert not found.advice.startswith("Stay alone")


@pytest.mark.parametrize(
    ("alone", "pooled", "alone_pooled", "head"),
    [
        ((1, 0.5, 1.5), (2, 1, 3), (-1, -2, -0.5), "Federate."),
        ((1, 0.5, 1.5), (0.1, -1, 1.2), (0.9, 0.5, 1), "Federate."),
        ((1, 0.5, 1.5), (-2, -3, -1), (3, 2, 4), "Pool, if rows may be brought together; if they "),
        (
            (0.1, -1, 1.2),
            (-2, -3, -1),
            (2, 1, 3),
            "Pool, if rows may be brought together; if they ",
        ),
        ((0.1, -1, 1.2), (0.1, -1, 1.2), (0, -1, 1), "Stay alone."),
        ((-1, -2, -0.5), (3, 2, 4), (-4, -5, -3), "Stay alone."),
        ((0, 0, 0), (1, 0.5, 2), (-1, -2, -0.5), "Stay alone."),
    ],
)
def test_advice_by_what_is_clear(alone, pooled, alone_pooled, head):
    gaps = {"alone": Interval(*alone), "pooled": Interval(*pooled)}
    errors = {"alone": 10.0 + alone[0], "pooled": 10.0 + pooled[0], "together": 10.0}
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(*alone_pooled))
    assert text.startswith(head)
    assert ("if they may not, federate" in text) == (pooled[2] < 0 and alone[1] > 0)
    assert ("if they may not, stay alone" in text) == (alone_pooled[1] > 0 >= alone[1])
    unclear = alone[1] <= 0 <= alone[2]
    assert ("cannot tell learning together from each node alone" in text) == unclear


def test_advice_gives_the_numbers_and_names_what_is_better_still():
    gaps = {
        "alone": Interval(0.02, 0.01, 0.03),
        "Ditto": Interval(-0.04, -0.05, -0.03),
        "IFCA": Interval(-0.01, -0.03, 0.01),
    }
    errors = {"alone": 0.12, "together": 0.1, "Ditto": 0.06, "IFCA": 0.09}
    assert advise(MEASURES["error rate"], errors, gaps) == (
        "Federate. Learning together has a lower error rate than each node alone: 10.0 % against 12.0 % "
        "(difference -2.0 points, 95 % interval -3.0 to -1.0 points). Clearly better than learning "
        "together: Ditto (6.0 %)."
    )


def test_to_pool_is_the_best_way_that_needs_rows_in_one_place():
    """Named in the first sentence; the other pooling ways are not mentioned."""
    gaps = {
        "alone": Interval(1.0, 0.5, 1.5),
        "pooled": Interval(0.5, 0.2, 0.8),
        "pooled+node": Interval(-0.5, -0.75, -0.25),
        "mixed model": Interval(-0.25, -0.3, -0.2),
    }
    errors = {"together": 5.0} | {way: 5.0 + gap.mean for way, gap in gaps.items()}
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(1.5, 1.0, 2.0))
    assert text == (
        "Pool, if rows may be brought together; if they may not, federate. One pooled model with a "
        "column per node has a lower RMSE than learning together: 4.5 against 5 (difference -0.5, "
        "95 % interval -0.75 to -0.25). Learning together has a lower RMSE than each node alone: "
        "5 against 6 (difference -1, 95 % interval -1.5 to -0.5)."
    )
    unsure = gaps | {"pooled+node": Interval(-0.5, -1.5, 0.5)}
    text = advise(MEASURES["RMSE"], errors, unsure, Interval(1.25, 1.0, 1.5))
    assert "A mixed model of all rows has a lower RMSE than learning together: 4.75" in text
    unsure |= {"mixed model": Interval(-0.25, -1.0, 0.5)}
    text = advise(MEASURES["RMSE"], errors, unsure, Interval(1.5, 1.0, 2.0))
    assert text.startswith("Federate. Learning together has a lower RMSE than each node alone")
    assert (
        "The splits cannot tell one pooled model with a column per node from learning together: the "
        "RMSE is 4.5 against 5 (difference -0.5, 95 % interval -1.5 to +0.5)."
    ) in text


def test_to_pool_needs_more_than_to_beat_learning_together():
    """With a lower error alone, nobody should bring rows together."""
    gaps = {"alone": Interval(0.5, -1.0, 2.0), "mixed model": Interval(-1.0, -1.5, -0.5)}
    errors = {"alone": 5.5, "together": 5.0, "mixed model": 4.0}
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(1.5, -0.1, 3.1))
    assert text.startswith(
        "Pool, if rows may be brought together; if they may not, stay alone. A mixed model of all rows "
        "has a lower RMSE than learning together: 4 against 5 (difference -1,"
    )
    assert "cannot tell a mixed model of all rows from each node alone" in text
    gaps["alone"], errors["alone"] = Interval(-1.5, -2.0, -1.0), 3.5
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(-0.5, -0.8, -0.2))
    assert text.startswith("Stay alone. A mixed model of all rows has a higher RMSE than each node")


def test_levels_of_many_small_nodes_are_pooled_with_the_node():
    """Every node has a level of its own and all slopes are equal; the advice names a pooling way."""
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(160, 4)), np.repeat(np.arange(20), 8)
    y = X @ [1.0, -2.0, 3.0, 1.0] + 5 * rng.normal(size=20)[nodes] + 0.5 * rng.normal(size=160)
    found = compare_ways(linear(), X, y, nodes, ways=[Pooled(), PooledNode()], splits=3)
    assert found.error("pooled+node").mean < 0.9 < 3 < found.error("pooled").mean
    assert found.advice.startswith("Pool, if") and "a column per node has a lower" in found.advice
    chosen = {split[found.ways.index("pooled+node")]["factor"] for split in found.settings}
    assert chosen <= {0.001, 0.1, 1.0, 10.0}


def test_ways_that_need_rows_in_one_place_are_compared_by_default():
    names = [way.name for way in usual_ways(linear())]
    assert names[:5] == ["alone", "pooled", "pooled+node", "mixed model", "together"]
    assert len(ways_by_name(["pooled+node", "mixed-model"], usual_ways(linear()))) == 2


def test_the_interval_by_hand():
    """Mean 7/3 and variance 7/3; 4.302653 is the 97.5 % point of Student's t with 2 degrees."""
    found = student_interval(np.array([1.0, 2.0, 4.0]), overlap=25 / 100)
    half = 4.302653 * np.sqrt((1 / 3 + 25 / 100) * 7 / 3)
    assert found.mean == pytest.approx(7 / 3)
    assert (found.low, found.high) == pytest.approx((7 / 3 - half, 7 / 3 + half), rel=1e-6)


def test_the_same_few_wrong_labels_in_every_split_are_not_certain():
    """One of 8 test rows: the variance is at least 1/8 * 7/8 / 8, whatever the splits say."""
    found = Comparison(
        measure=MEASURES["error rate"],
        ways=("alone", "together"),
        errors=np.array([[0.25, 0.125]] * 3),
        node_errors=np.array([[[0.25], [0.125]]] * 3),
        settings=[[{}, {}]] * 3,
        nodes=("a",),
        rows=np.array([[32, 8]]),
        refused={},
        planned=3,
    )
    half = 4.302653 * np.sqrt((1 / 3 + 8 / 32) * 7 / 512)
    assert found.difference("alone").low == pytest.approx(0.125 - half, rel=1e-6)
    assert found.advice.startswith("More splits are needed to tell. The splits cannot")
    assert replace(found, measure=MEASURES["RMSE"]).difference("alone").low == pytest.approx(0.125)


def test_equal_ways_are_not_told_apart_by_rounding():
    """FedRelax that chooses alpha = 0 is alone, computed in another way."""
    found = compare_ways(linear(), *few(), ways=[Together(alpha=0.0)], splits=3)
    assert found.difference("alone") == LINE
    assert "The splits cannot tell learning together from each node alone" in found.advice


def test_few_splits_that_cannot_tell_ask_for_more():
    errors, gaps = {"alone": 4.0, "together": 3.1}, {"alone": Interval(0.9, -2.0, 3.8)}
    assert advise(MEASURES["RMSE"], errors, gaps).startswith("Stay alone. ")
    text = advise(MEASURES["RMSE"], errors, gaps, few_splits=True)
    assert text.startswith(
        "More splits are needed to tell. The splits cannot tell learning together"
    )
    slight = {"alone": Interval(0.1, -0.2, 0.4)}
    text = advise(MEASURES["RMSE"], {"alone": 4.0, "together": 3.9}, slight, few_splits=True)
    assert text.startswith("Stay alone. ")
