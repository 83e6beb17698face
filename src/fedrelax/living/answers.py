"""What all nodes answer on the common public rows, and what they would answer on other rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from fedrelax.living.overlay import GONE, Overlay
from fedrelax.models import LocalModel, Task
from fedrelax.public import PublicRows
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.wiring.smoother import Smoother


class FirstAnswers(Mapping[Label, FloatArray]):
    """The answers of a trained network's models, computed one by one until all are needed."""

    def __init__(
        self,
        place: Mapping[Label, int],
        models: Mapping[Label, LocalModel],
        rows: AnyArray,
        array: FloatArray | None,
    ) -> None:
        self.place, self._models, self._rows, self._array = place, models, rows, array
        self._asked: dict[Label, FloatArray] = {}

    def __getitem__(self, label: Label) -> FloatArray:
        if self._array is not None:
            answer: FloatArray = self._array[self.place[label]]
            return answer
        if label not in self._asked:
            self._asked[label] = self._models[label].predict(self._rows)
        return self._asked[label]

    def __iter__(self) -> Iterator[Label]:
        return iter(self.place)

    def __len__(self) -> int:
        return len(self.place)

    @property
    def array(self) -> FloatArray:
        """All answers (nodes, public rows, outputs), computed once."""
        if self._array is None:
            self._array = np.stack([self[label] for label in self.place])
            self._asked.clear()
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
