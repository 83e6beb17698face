"""What a run says of edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedrelax.graph import Graph
from fedrelax.typing import FloatArray, Label


class EdgeValues(Mapping[tuple[Label, Label], float]):
    """One number per directed edge, in the order of the graph's matrix."""

    def __init__(self, graph: Graph, values: FloatArray | Callable[[], FloatArray]) -> None:
        """Take the values, or what computes them when the first is asked for."""
        self._graph, self._values = graph, values
        self._found: dict[tuple[Label, Label], float] | None = None

    @property
    def _all(self) -> dict[tuple[Label, Label], float]:
        if self._found is None:
            A, labels = self._graph.adjacency, self._graph.labels
            values = self._values() if callable(self._values) else self._values
            learners = np.repeat(np.arange(len(labels)), np.diff(A.indptr)).tolist()
            ends = zip(learners, A.indices.tolist(), values.tolist(), strict=True)
            self._found = {(labels[i], labels[j]): value for i, j, value in ends}
        return self._found

    def __getitem__(self, edge: tuple[Label, Label]) -> float:
        return self._all[edge]

    def __iter__(self) -> Iterator[tuple[Label, Label]]:
        return iter(self._all)

    def __len__(self) -> int:
        return 2 * self._graph.n_edges

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._all,)
