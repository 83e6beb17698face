"""Public rows: unlabelled inputs on which neighbours compare their predictions.

What each way of drawing them tells the others about the nodes' inputs:

============  ===================================================================================
gaussian      the mean and covariance of all nodes' inputs together
marginals     single values of single columns, never two values of one row
uniform       the smallest and the largest value of each column
standard      nothing; it fits only inputs that are standardised already
blend         points between two input rows, each at least a quarter of the way from both
bootstrap     whole input rows of some nodes; what a node predicts there is nearly its label
============  ===================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.typing import AnyArray, FloatArray, Label


@dataclass(frozen=True)
class PublicRows:
    """One common set of public rows, or one set per node."""

    common: AnyArray | None = None
    per_node: Mapping[Label, AnyArray] | None = None

    def of(self, label: Label) -> AnyArray:
        """Return the rows that a node shares with its neighbours."""
        if self.common is not None:
            return self.common
        assert self.per_node is not None
        return self.per_node[label]


def _gaussian(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    mean = inputs.mean(axis=0)
    covariance = np.atleast_2d(np.cov(inputs, rowvar=False)) if len(inputs) > 1 else None
    if covariance is None:
        return np.repeat(mean[None], rows, axis=0)
    values, vectors = np.linalg.eigh(covariance)
    spread = vectors * np.sqrt(np.clip(values, 0.0, None))
    return np.asarray(mean + rng.standard_normal((rows, len(mean))) @ spread.T)


def _bootstrap(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    return np.asarray(inputs[rng.integers(len(inputs), size=rows)])


def _blend(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    one = rng.integers(len(inputs), size=rows)
    other = (one + rng.integers(1, max(len(inputs), 2), size=rows)) % len(inputs)
    share = rng.uniform(0.25, 0.75, size=(rows, 1))
    return np.asarray(share * inputs[one] + (1 - share) * inputs[other])


def _marginals(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    chosen = rng.integers(len(inputs), size=(rows, inputs.shape[1]))
    return np.asarray(np.take_along_axis(inputs, chosen, axis=0))


def _uniform(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    return rng.uniform(inputs.min(axis=0), inputs.max(axis=0), size=(rows, inputs.shape[1]))


def _standard(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    return rng.standard_normal((rows, inputs.shape[1]))


DRAWS: dict[str, Callable[[FloatArray, int, np.random.Generator], FloatArray]] = {
    "gaussian": _gaussian,
    "marginals": _marginals,
    "uniform": _uniform,
    "standard": _standard,
    "blend": _blend,
    "bootstrap": _bootstrap,
}


def draw_public(
    how: str, inputs: Sequence[FloatArray], rows: int, rng: np.random.Generator
) -> FloatArray:
    """Draw one common set of ``rows`` public rows from the nodes' inputs.

    >>> draw_public("uniform", [np.zeros((3, 2)), np.ones((3, 2))], 4,
    ...             np.random.default_rng(0)).shape
    (4, 2)
    """
    if how not in DRAWS:
        raise FedRelaxError(
            f"public={how!r} is not known (known: {', '.join(DRAWS)}){did_you_mean(how, DRAWS)}"
        )
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise FedRelaxError(f"public_rows={rows!r} must be a whole number of at least 1")
    return draw_like(how, np.concatenate(list(inputs)), int(rows), rng)


def draw_like(how: str, inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    """Draw rows in the shape of the inputs'; of images, say, every number is a column."""
    drawn = DRAWS[how](inputs.reshape(len(inputs), -1), rows, rng)
    return drawn.reshape(rows, *inputs.shape[1:])
