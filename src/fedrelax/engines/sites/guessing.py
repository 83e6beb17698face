"""How well neighbours' answers fit a site's own rows: the second check of a wiring, done by the site."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedrelax.public import PublicRows, Smoother
from fedrelax.runtime import Site
from fedrelax.typing import FloatArray, Label


class Guessing:
    """Estimates what neighbours would predict on a site's rows from their answers on public rows."""

    def __init__(self, public: PublicRows) -> None:
        self._public = public
        self._smoothers: dict[Label | None, Smoother] = {}
        self._told: dict[int, tuple[FloatArray, FloatArray]] = {}
        """By id: most answers are one array for all who hear it. Storing the array keeps its id valid."""

    def losses(self, site: Site, others: Iterable[Label]) -> dict[Label, float]:
        """Return the site's loss on its own rows if it predicted them with each neighbour's answers."""
        X, common = self._public.as_numbers(site.node.X), self._public.common is not None
        weights = self._smoother(site.label).weights(X) if common else None
        found: dict[Label, float] = {}
        for j in others:
            answer = site.received.get((j, j))
            if answer is None:
                found[j] = np.inf
                continue
            smoother = self._smoother(j)
            if id(answer) not in self._told:
                self._told[id(answer)] = answer, smoother.coefficients(answer)
            K = smoother.weights(X) if weights is None else weights
            guess = site.task.plausible(K @ self._told[id(answer)][1])
            found[j] = site.coupling.loss.mean(site.target, guess)
        return found

    def _smoother(self, owner: Label) -> Smoother:
        key = None if self._public.common is not None else owner
        if key not in self._smoothers:
            self._smoothers[key] = Smoother(self._public.as_numbers(self._public.of(owner)))
        return self._smoothers[key]
