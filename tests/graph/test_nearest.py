"""Nearest-neighbour graphs against brute force."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph

relaxed = settings(deadline=None, max_examples=60)


def great_circle(places):
    """The haversine formula, all pairs, in radians."""
    latitude, longitude = np.radians(places).T
    up = np.sin((latitude[:, None] - latitude) / 2) ** 2
    across = np.sin((longitude[:, None] - longitude) / 2) ** 2
    flat = np.cos(latitude)[:, None] * np.cos(latitude)
    return 2 * np.arcsin(np.sqrt(np.clip(up + flat * across, 0, 1)))


def straight(places):
    return np.linalg.norm(places[:, None] - places[None], axis=2)


def assert_nearest(g, distance, k, slack):
    """Each node has all that are surely among its k nearest; each edge is near for one end.

    ``slack`` leaves open which of equally near nodes are taken.
    """
    n = len(distance)
    joined = g.adjacency.toarray() > 0
    others = distance + np.diag(np.full(n, np.inf))
    kth = np.sort(others, axis=1)[:, min(k, n - 1) - 1][:, None]
    surely = others < kth - slack
    possibly = others <= kth + slack
    assert (joined | ~(surely | surely.T)).all()
    assert (~joined | possibly | possibly.T).all()
    assert (joined.sum(axis=1) >= min(k, n - 1)).all()


latitudes = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 0.0, 60.0, 90.0]))
longitudes = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, -179.9, 0.0, 179.9, 180.0]))
globe = st.lists(st.tuples(latitudes, longitudes), min_size=2, max_size=25).map(np.array)
plane = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=40).map(
    lambda rows: np.array(rows, dtype=float)
)


@given(globe, st.integers(1, 6))
@relaxed
def test_equals_brute_force_on_the_globe(places, k):
    g = Graph.from_coordinates(places, k=k, metric="haversine")
    assert_nearest(g, great_circle(places), k, slack=1e-6)


@given(plane, st.integers(1, 6))
@relaxed
def test_equals_brute_force_on_the_plane_with_ties_and_duplicates(places, k):
    g = Graph.from_coordinates(places, k=k)
    assert_nearest(g, straight(places), k, slack=1e-9)


@given(plane, st.integers(1, 6), st.randoms(use_true_random=False))
@relaxed
def test_the_order_of_the_nodes_does_not_matter(places, k, random):
    names = [f"node {i}" for i in range(len(places))]
    order = list(range(len(places)))
    random.shuffle(order)
    g = Graph.from_coordinates(places, k=k, labels=names)
    shuffled = [names[i] for i in order]
    h = Graph.from_coordinates(places[order], k=k, labels=shuffled)
    assert h.subgraph(names) == g


def test_random_points_have_exactly_the_brute_force_edges():
    rng = np.random.default_rng(0)
    places = np.column_stack(
        [np.degrees(np.arcsin(rng.uniform(-1, 1, 300))), rng.uniform(-180, 180, 300)]
    )
    others = great_circle(places) + np.diag(np.full(300, np.inf))
    chosen = np.zeros((300, 300), dtype=bool)
    np.put_along_axis(chosen, np.argsort(others, axis=1)[:, :4], True, axis=1)
    g = Graph.from_coordinates(places, k=4, metric="haversine")
    np.testing.assert_array_equal(g.adjacency.toarray() > 0, chosen | chosen.T)


def test_neighbours_across_the_date_line_and_the_pole():
    places = {
        "Fiji west": (-17.0, 179.9),
        "Fiji east": (-17.0, -179.9),
        "pole side": (89.9, 0.0),
        "other side": (89.9, 180.0),
        "Tonga": (-21.0, -175.0),
    }
    g = Graph.from_coordinates(places, k=1, metric="haversine")
    assert "Fiji east" in g.neighbours("Fiji west")
    assert "other side" in g.neighbours("pole side")


def test_many_coincident_nodes_share_the_edges_out():
    n, k = 200, 5
    g = Graph.from_coordinates(np.zeros((n, 2)), k=k)
    count = np.diff(g.adjacency.indptr)
    assert (count >= k).all() and (count <= 2 * k).all()
    poles = np.column_stack([np.full(n, 90.0), np.linspace(-180, 180, n)])
    count = np.diff(Graph.from_coordinates(poles, k=k, metric="haversine").adjacency.indptr)
    assert (count >= k).all() and (count <= 2 * k).all()


def test_auto_looks_at_the_column_names():
    values = {"LAT": [60.2, 61.5, 65.0], "Lng": [24.9, 23.8, 25.5], "height": [5, 100, 15]}
    frame = pd.DataFrame(values, index=["Helsinki", "Tampere", "Oulu"])
    g = Graph.from_coordinates(frame, k=1)
    assert g.geographic and g.labels == ("Helsinki", "Tampere", "Oulu")
    np.testing.assert_array_equal(g.positions, frame[["LAT", "Lng"]])
    turned = Graph.from_coordinates(frame[["height", "Lng", "LAT"]], k=1)
    assert turned == g
    np.testing.assert_array_equal(turned.positions, g.positions)
    flat = Graph.from_coordinates(frame, k=1, metric="euclidean")
    assert not flat.geographic and flat.positions.shape == (3, 3)
    assert not Graph.from_coordinates(frame.rename(columns=str.title)[["Height"]], k=1).geographic
    assert not Graph.from_coordinates(frame.to_numpy(), k=1).geographic


def test_labels_beside_a_frame_that_only_counts():
    frame = pd.DataFrame({"x": [0, 1, 5], "y": [0, 0, 0]})
    assert Graph.from_coordinates(frame, k=1, labels=list("abc")).labels == ("a", "b", "c")
    twice = frame.set_axis([0, 0, 1])
    assert Graph.from_coordinates(twice, k=1, labels=list("abc")).labels == ("a", "b", "c")
    with pytest.raises(FedRelaxError, match="the index of the DataFrame labels the rows"):
        Graph.from_coordinates(frame.set_axis(list("xyz")), labels=list("abc"))


def test_dict_in_the_order_of_labels():
    places = {"a": (0, 0), "b": (0, 1), "c": (0, 5)}
    g = Graph.from_coordinates(places, k=1, labels=["c", "b", "a"])
    assert g.labels == ("c", "b", "a") and g.neighbours("b") == {"c": 1.0, "a": 1.0}
    with pytest.raises(FedRelaxError, match="unknown node 'd'"):
        Graph.from_coordinates(places, labels=["a", "b", "c", "d"])
    with pytest.raises(FedRelaxError, match="leaves out node 'c'"):
        Graph.from_coordinates(places, labels=["a", "b"])


def test_k_is_clipped_to_all_others():
    places = np.random.default_rng(0).random((5, 2))
    for k in (4, 5, 100):
        assert Graph.from_coordinates(places, k=k) == Graph.complete(range(5))
    assert Graph.from_coordinates([[1.0, 2.0]], k=3).n_edges == 0


@pytest.mark.parametrize(
    ("places", "options", "message"),
    [
        ({"a": (0, 0), "b": (np.nan, 0)}, {}, r"node 'b' has the coordinate nan \(column 0\)"),
        ({"a": (0, 0), "b": (0, "x")}, {}, "all numbers and equally many"),
        ({"a": (0, 0), "b": (0,)}, {}, "all numbers and equally many"),
        ({"a": (91, 0), "b": (0, 0)}, {"metric": "haversine"}, "node 'a' has the latitude 91.0"),
        ({"a": (0, 400), "b": (0, 0)}, {"metric": "haversine"}, "node 'a' has the longitude 400"),
        ({"a": (0, 0, 0)}, {"metric": "haversine"}, "needs two columns.*found 3"),
        (pd.DataFrame({"lat": [1], "y": [2]}), {}, "exactly one latitude and one longitude"),
        (pd.DataFrame({"lat": [1.0], "lon": [np.inf]}), {}, r"node 0 .* inf \(column lon\)"),
        (np.zeros((3, 2)), {"k": 0}, "k=0 must be a whole number of at least 1"),
        (np.zeros((3, 2)), {"k": 1.5}, "k=1.5 must be a whole number"),
        (np.zeros((3, 2)), {"metric": "manhattan"}, "metric='manhattan' must be one of auto"),
        (np.zeros((3, 2)), {"labels": ["a"]}, "1 labels were given for 3 nodes"),
        (np.zeros(3), {}, r"found shape \(3,\)"),
        (np.zeros((0, 2)), {}, "no nodes"),
        (5, {}, "found 5"),
    ],
)
def test_bad_coordinates(places, options, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.from_coordinates(places, **options)
