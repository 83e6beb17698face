from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrelax.datasets import digits_by_writer, labelled_split
from fedrelax.errors import FedRelaxError


@pytest.fixture(scope="module")
def digits():
    return digits_by_writer()


def test_digits_are_complete_and_scaled(digits):
    assert digits.X.shape == (1797, 64)
    assert digits.X.min() == 0
    assert digits.X.max() == 1
    assert set(digits.y) == set(range(10))
    assert sorted(set(digits.writers)) == [f"writer {k:02d}" for k in range(1, 15)]


def test_every_writer_copied_the_same_form(digits):
    forms = [digits.y[digits.writers == w].tolist() for w in sorted(set(digits.writers))]
    whole = max(forms, key=len)
    foreign = 0
    for form in forms:
        matched = SequenceMatcher(None, form, whole, autojunk=False).get_matching_blocks()
        foreign += len(form) - sum(block.size for block in matched)
    # One image is labelled 3 where the form says 8; a wrong boundary would add to this.
    assert foreign == 1


def test_a_split_takes_per_node_rows_of_every_node(digits):
    mask = labelled_split(digits.writers, per_node=20, random_state=3)
    for writer in set(digits.writers):
        assert mask[digits.writers == writer].sum() == 20


def test_a_stratified_split_balances_the_classes(digits):
    mask = labelled_split(digits.writers, per_node=20, random_state=3, stratify=digits.y)
    for writer in set(digits.writers):
        own = digits.writers == writer
        share = np.bincount(digits.y[own], minlength=10) / own.sum()
        counts = np.bincount(digits.y[mask & own], minlength=10)
        assert counts.sum() == 20
        assert np.abs(counts - 20 * share).max() < 1


def test_same_seed_same_split(digits):
    one, two, other = (labelled_split(digits.writers, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@given(
    sizes=st.lists(st.integers(2, 12), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    stratify=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_split_is_exact_whatever_the_order_of_rows(sizes, seed, stratify):
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    classes = rng.integers(3, size=len(nodes)) if stratify else None
    per_node = min(sizes) - 1
    mask = labelled_split(nodes, per_node, seed, classes)
    assert np.bincount(nodes[mask], minlength=len(sizes)).tolist() == [per_node] * len(sizes)


def test_every_row_is_chosen_equally_often():
    nodes = np.repeat([0, 1], [4, 8])
    rng = np.random.default_rng(0)
    times = sum(labelled_split(nodes, 2, rng).astype(int) for _ in range(2000))
    share = np.repeat([2 / 4, 2 / 8], [4, 8])
    assert (np.abs(times / 2000 - share) < 5 * np.sqrt(share * (1 - share) / 2000)).all()


def test_a_node_too_small_to_split_is_named():
    with pytest.raises(FedRelaxError, match="node 'b' has 2 rows"):
        labelled_split(["a", "a", "a", "b", "b"], per_node=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"nodes": [], "per_node": 1}, "nodes has shape"),
        ({"nodes": ["a", "a"], "per_node": 0}, "per_node=0 must be"),
        ({"nodes": ["a", "a"], "per_node": 1, "stratify": [1]}, "stratify has 1 entries"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(FedRelaxError, match=words):
        labelled_split(**arguments)
