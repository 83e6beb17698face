"""Models, edges and answers as trained, and changes on top of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from fedrelax.graph import Graph
from fedrelax.models import LocalModel, Task
from fedrelax.network.rows import Lookup
from fedrelax.public import PublicRows, Smoother
from fedrelax.typing import AnyArray, FloatArray, Label

T = TypeVar("T")

GONE: Any = object()
NOTHING: Any = object()


class Overlay(Mapping[Label, T]):
    """A mapping over another one: what was set or removed here, else what the base says.

    >>> overlay = Overlay({"a": 1, "b": 2})
    >>> overlay["c"] = 3
    >>> del overlay["a"]
    >>> dict(overlay)
    {'b': 2, 'c': 3}
    """

    def __init__(self, base: Mapping[Label, T], changed: Mapping[Label, Any] | None = None) -> None:
        self.base, self.changed = base, dict[Label, Any](changed or {})

    def __getitem__(self, label: Label) -> T:
        found = self.changed.get(label, NOTHING)
        if found is GONE:
            raise KeyError(label)
        return self.base[label] if found is NOTHING else found

    def __setitem__(self, label: Label, value: T) -> None:
        self.changed[label] = value

    def __delitem__(self, label: Label) -> None:
        self.changed[label] = GONE

    def __contains__(self, label: object) -> bool:
        found = self.changed.get(label, NOTHING)
        return label in self.base if found is NOTHING else found is not GONE

    def __iter__(self) -> Iterator[Label]:
        for label in self.base:
            if self.changed.get(label) is not GONE:
                yield label
        for label, value in self.changed.items():
            if value is not GONE and label not in self.base:
                yield label

    def __len__(self) -> int:
        new = sum(
            (value is not GONE) - (label in self.base) for label, value in self.changed.items()
        )
        return len(self.base) + new

    def frozen(self) -> Overlay[T]:
        """Return a copy that later changes do not reach; only the changes are copied."""
        return Overlay(self.base, self.changed)


Near = dict[Label, float]


def join(links: Overlay[Near], label: Label, near: Mapping[Label, float]) -> None:
    """Connect a node to these neighbours instead of those it had."""
    part(links, label)
    links[label] = dict(near)
    for other, weight in near.items():
        links[other] = {**links[other], label: weight}


def part(links: Overlay[Near], label: Label) -> None:
    """Cut all edges of a node, if it has any."""
    for other in links.get(label, {}):
        links[other] = {j: a for j, a in links[other].items() if j != label}
    if label in links:
        links[label] = {}


def mean_of_neighbours(
    first: Graph, links: Overlay[Near], labels: list[Label], values: FloatArray
) -> FloatArray:
    """Return the weighted mean of the neighbours' values (nodes, ...), the node's own if it has none.

    ``labels`` begin with those of the first graph, in its order; the values of nodes that left are NaN.
    """
    matrix = first.adjacency
    n, flat = matrix.shape[0], np.nan_to_num(values.reshape(len(values), -1))
    sums, degree = np.zeros_like(flat), np.zeros(len(flat))
    sums[:n], degree[:n] = matrix @ flat[:n], first.degrees
    changed = {label: near for label, near in links.changed.items() if near is not GONE}
    if changed:
        place = {label: k for k, label in enumerate(labels)}
        for label, near in changed.items():
            at = place[label]
            others = [place[j] for j in near if j in place]
            weights = np.array([a for j, a in near.items() if j in place])
            sums[at], degree[at] = weights @ flat[others], weights.sum()
    apart = degree == 0
    sums[apart], degree[apart] = flat[apart], 1.0
    return np.asarray((sums / degree[:, None]).reshape(values.shape))


def assembled(
    first: Graph,
    changed: Mapping[Label, Near],
    labels: tuple[Label, ...],
    positions: Mapping[Label, FloatArray],
) -> Graph:
    """Return a graph on ``labels``: the edges of the first one that did not change, and those that did.

    ``changed`` holds all neighbours of the nodes in it; newcomers without a known position have NaN.
    """
    place = {label: k for k, label in enumerate(labels)}
    gone = [label for label in first.labels if label not in place]
    old = first.with_labels([*labels, *gone]).subgraph(labels)
    still = sparse.diags_array([float(label not in changed) for label in labels])
    new = {}
    for label, near in changed.items():
        for other, weight in near.items():
            if label in place and other in place:
                new[place[label], place[other]] = new[place[other], place[label]] = weight
    ends = np.array(list(new), dtype=np.int64).reshape(-1, 2).T
    added = sparse.csr_array((list(new.values()), ends), shape=(len(labels), len(labels)))
    places = None
    if old.positions is not None:
        places = np.array(
            [positions.get(j, here) for j, here in zip(labels, old.positions, strict=True)]
        )
    return Graph(still @ old.adjacency @ still + added, labels, places, first.geographic)


class FirstAnswers(Lookup[FloatArray]):
    """The answers of a trained network's models, computed one by one until all are needed."""

    def __init__(
        self,
        place: Mapping[Label, int],
        models: Mapping[Label, LocalModel],
        rows: AnyArray,
        array: FloatArray | None,
    ) -> None:
        super().__init__(place, self._answer)
        self.place, self._models, self._rows, self._array = place, models, rows, array

    def _answer(self, label: Label) -> FloatArray:
        if self._array is None:
            return self._models[label].predict(self._rows)
        return np.asarray(self._array[self.place[label]])

    @property
    def array(self) -> FloatArray:
        """All answers (nodes, public rows, outputs), computed once."""
        if self._array is None:
            self._array = np.stack(list(self.values()))
            self._made.clear()
        return self._array


class Guesses:
    """Carries answers from the public rows over to any rows, for all nodes at once."""

    def __init__(self, public: PublicRows, said: Overlay[FloatArray], task: Task) -> None:
        self._public, self._said, self._task = public, said, task

    @cached_property
    def _smoother(self) -> Smoother:
        assert self._public.common is not None
        return Smoother(self._public.as_numbers(self._public.common))

    def weights(self, X: AnyArray) -> FloatArray:
        """Return W (rows, public rows): ``W @ answers`` is what a node would answer on rows X."""
        return self._smoother.carrying(self._public.as_numbers(X))

    def of_all(self, X: AnyArray) -> tuple[list[Label], FloatArray]:
        """Return what every node would answer on rows X: (nodes, rows, outputs).

        The first nodes are those that the network began with, in their order; those that left have NaN.
        """
        first = self._said.base
        assert isinstance(first, FirstAnswers)
        W, array = self.weights(X), first.array
        new = [label for label in self._said.changed if label not in first.place]
        labels = [*first.place, *new]
        guesses = np.empty((len(labels), len(W), array.shape[2]))
        for k in range(array.shape[2]):
            guesses[: len(array), :, k] = array[:, :, k] @ W.T
        place = {label: len(array) + k for k, label in enumerate(new)}
        for label, answer in self._said.changed.items():
            at = first.place.get(label, place.get(label))
            guesses[at] = np.nan if answer is GONE else W @ answer
        return labels, self._task.plausible(guesses)
