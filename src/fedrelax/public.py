"""Public rows: unlabelled inputs on which neighbours compare their predictions.

What each way of drawing them reveals about the nodes' inputs:

============  ===================================================================================
gaussian      the mean and covariance of all nodes' inputs together
marginals     single values of single columns, never two values of one row
uniform       the smallest and the largest value of each column
standard      nothing; it fits only inputs that are standardised already
blend         points between two input rows, each at least a quarter of the way from both
bootstrap     whole input rows of some nodes; what a node predicts there is nearly its label
============  ===================================================================================

Where each node draws from its own inputs, as for the default and at sites, columns of equal steps (years,
counts) hold values that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedrelax.linear.arrays import centre_and_spread
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label
from fedrelax.validation import check_choice, check_count

NODE_STREAM = 1
"""Keeps a node's draw of public rows independent of its other draws under one seed."""
NODE_ROWS, ALL_ROWS, FEWEST_ROWS = 100, 5000, 10
"""Public rows of a node; fewer if all nodes together would have more than this, but at least so many."""
BOOSTING_ROWS = 2000
"""Public rows of all nodes together on which boosted models answer; a part of them is enough for lines."""
LEAST_ROWS, LEAST_MEAN_ROWS, MOST_BOOSTED = 150, 30, 100
"""Rows in all, and of a node in the mean, from which boosting is tried, and the most nodes for it."""
MOST_STEPS = 100
"""The most steps between the least and the largest value of a column of steps."""
Pieces = Sequence[tuple[slice, bool]]
"""Where each column of a table is in rows, and whether values between two others are valid, too."""


@dataclass(frozen=True)
class PublicRows:
    """One common set of public rows, or one set per node."""

    common: AnyArray | None = None
    per_node: Mapping[Label, AnyArray] | None = None
    owner: IntArray | None = None
    """Which node, by number, has drawn each row of the common set; None if nobody in particular."""
    pieces: Pieces | None = None
    """How to draw more rows like these: see ``draw_pieces``."""
    numbers: Callable[[AnyArray], FloatArray] | None = None
    """How rows look to models that need numbers, if not as they are."""

    def thinned(self, most: int) -> PublicRows:
        """Return at most so many rows of the common set, evenly spaced."""
        if self.common is None or len(self.common) <= most:
            return self
        few = np.linspace(0, len(self.common) - 1, most).astype(np.int64)
        owner = None if self.owner is None else self.owner[few]
        return replace(self, common=self.common[few], owner=owner)

    def as_numbers(self, rows: AnyArray) -> AnyArray:
        """Return rows as numbers without gaps."""
        return rows if self.numbers is None else self.numbers(rows)

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


def _pairs(
    inputs: FloatArray, rows: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the numbers of two inputs for every row of a blend, and the share (rows, 1) of the first."""
    one = rng.integers(len(inputs), size=rows)
    other = (one + rng.integers(1, max(len(inputs), 2), size=rows)) % len(inputs)
    return one, other, rng.uniform(0.25, 0.75, size=(rows, 1))


def _blend(inputs: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
    one, other, share = _pairs(inputs, rows, rng)
    return np.asarray(share * inputs[one] + (1 - share) * inputs[other])


DRAWS: dict[str, Callable[[FloatArray, int, np.random.Generator], FloatArray]] = {
    "gaussian": _gaussian,
    "marginals": lambda inputs, rows, rng: np.take_along_axis(
        inputs, rng.integers(len(inputs), size=(rows, inputs.shape[1])), axis=0
    ),
    "uniform": lambda inputs, rows, rng: rng.uniform(
        inputs.min(axis=0), inputs.max(axis=0), size=(rows, inputs.shape[1])
    ),
    "standard": lambda inputs, rows, rng: rng.standard_normal((rows, inputs.shape[1])),
    "blend": _blend,
    "bootstrap": lambda inputs, rows, rng: inputs[rng.integers(len(inputs), size=rows)],
}


def draw_public(
    how: str,
    inputs: Sequence[FloatArray],
    rows: int,
    rng: np.random.Generator,
    pieces: Pieces | None = None,
) -> FloatArray:
    """Draw one common set of ``rows`` public rows from the nodes' inputs.

    With ``pieces``, only numbers are mixed: a category, a date or a gap is taken from some row.

    >>> draw_public("uniform", [np.zeros((3, 2)), np.ones((3, 2))], 4,
    ...             np.random.default_rng(0)).shape
    (4, 2)
    """
    check_choice("public", how, tuple(DRAWS))
    check_count("public_rows", rows, least=1)
    return draw_like(how, np.concatenate(list(inputs)), int(rows), rng, pieces)


def public_count(rows: IntArray, boosting: bool = True) -> int:
    """Return how many public rows each node draws for the default, given how many own rows each has."""
    nodes = len(rows)
    count = min(NODE_ROWS, max(ALL_ROWS // nodes, FEWEST_ROWS))
    if boosting and allow_boosting(rows):
        count = max(count, -(-BOOSTING_ROWS // nodes))
    return count


def allow_boosting(rows: IntArray) -> bool:
    """Tell whether nodes with so many rows are worth boosting, and not too many."""
    enough = rows.sum() >= max(LEAST_MEAN_ROWS * len(rows), LEAST_ROWS)
    return bool(enough and len(rows) <= MOST_BOOSTED)


def draw_shared(
    how: str,
    inputs: Sequence[FloatArray],
    rows: int,
    seeds: Sequence[int],
    pieces: Pieces | None = None,
) -> PublicRows:
    """Let every node draw ``rows`` public rows from its own inputs, with a seed of its own, for all."""
    drawn = [
        draw_own(how, own, rows, seed, pieces)
        for own, seed in zip(inputs, seeds, strict=True)
        if len(own)
    ]
    owner = np.repeat([i for i, own in enumerate(inputs) if len(own)], rows)
    return PublicRows(common=np.concatenate(drawn), owner=owner)


def draw_own(
    how: str, inputs: FloatArray, rows: int, seed: int, pieces: Pieces | None = None
) -> FloatArray:
    """Draw public rows from a node's inputs, with its seed; their order does not matter.

    Columns of steps, such as years or counts, are taken from some row as they are, so that values that
    nodes have in common can be seen.
    """
    flat = inputs.reshape(len(inputs), -1)
    ordered = inputs[np.lexsort(flat.T[::-1])]
    if inputs.ndim == 2:
        pieces = pieces or [(slice(k, k + 1), True) for k in range(inputs.shape[1])]
        stepped = [mixed and is_stepped(inputs[:, piece.start]) for piece, mixed in pieces]
        if any(stepped):
            whole = zip(pieces, stepped, strict=True)
            pieces = [(piece, mixed and not steps) for (piece, mixed), steps in whole]
    return draw_like(how, ordered, rows, np.random.default_rng([seed, NODE_STREAM]), pieces)


def is_stepped(values: FloatArray) -> bool:
    """Tell whether values lie on few equal steps: whole numbers, or at least three with equal gaps.

    >>> is_stepped(np.array([1990.0, 1991.0, 1995.0])), is_stepped(np.array([0.1, 0.25, 0.31]))
    (True, False)
    """
    levels = np.unique(values)
    if len(levels) == 1:
        return True
    gaps = np.diff(levels)
    step = 1.0 if (levels == np.round(levels)).all() else float(gaps.min())
    steps = gaps / step
    if (len(levels) == 2 and step != 1.0) or steps.sum() > MOST_STEPS:
        return False
    return bool((np.abs(steps - np.round(steps)) < 1e-6).all())


def draw_like(
    how: str,
    inputs: FloatArray,
    rows: int,
    rng: np.random.Generator,
    pieces: Pieces | None = None,
) -> FloatArray:
    """Draw rows of the inputs' shape; every number of an image, say, counts as a column."""
    if pieces is not None:
        return draw_pieces(how, inputs, rows, rng, pieces)
    drawn = DRAWS[how](inputs.reshape(len(inputs), -1), rows, rng)
    return drawn.reshape(rows, *inputs.shape[1:])


def draw_pieces(
    how: str, inputs: FloatArray, rows: int, rng: np.random.Generator, pieces: Pieces
) -> FloatArray:
    """Draw rows of a table: what is not a number is taken from some row as it is, column by column.

    Numbers are drawn as usual, but where a value is missing (NaN, or 1 in the column next to it that
    says so) the column is taken from a row, too. A blend takes it from one of its two rows.
    """
    if how == "bootstrap":
        return DRAWS[how](inputs, rows, rng)
    one, other, share = _pairs(inputs, rows, rng)
    drawn = np.empty((rows, inputs.shape[1]))
    for piece, _ in pieces:
        if how == "blend":
            source = np.where(rng.random(rows) < 0.5, one, other)
        else:
            source = rng.integers(len(inputs), size=rows)
        drawn[:, piece] = inputs[source, piece]
    numbers = [piece for piece, mixed in pieces if mixed]
    if how == "marginals" or not numbers:
        return drawn
    absent = [_absent(inputs, piece) for piece in numbers]
    values = np.column_stack([inputs[:, piece.start] for piece in numbers])
    for k, gone in enumerate(absent):
        values[gone, k] = values[~gone, k].mean() if not gone.all() else 0.0
    if how == "blend":
        values = share * values[one] + (1 - share) * values[other]
    else:
        values = DRAWS[how](values, rows, rng)
    for k, piece in enumerate(numbers):
        there = ~_absent(drawn, piece)
        if how == "blend":
            there = ~absent[k][one] & ~absent[k][other]
            drawn[there, piece.start + 1 : piece.stop] = 0.0
        drawn[there, piece.start] = values[there, k]
    return drawn


def _absent(rows: FloatArray, piece: slice) -> AnyArray:
    """Tell in which rows a number is missing: NaN, or the column after it is 1."""
    block = rows[:, piece]
    return np.isnan(block[:, 0]) | (block[:, -1] == 1.0 if block.shape[1] > 1 else False)


def filled(
    drawn: FloatArray, inputs: FloatArray, columns: Sequence[int], rng: np.random.Generator
) -> FloatArray:
    """Fill gaps in these columns, each with the value of some input, and return the rows."""
    for k in columns:
        gone = np.flatnonzero(np.isnan(drawn[:, k]))
        values = inputs[~np.isnan(inputs[:, k]), k]
        if len(values):
            drawn[gone, k] = values[rng.integers(len(values), size=len(gone))]
    return drawn


RIDGE = 1e-3
"""Penalty relative to the mean of the kernel's diagonal: keeps the guess stable between public rows."""


class Smoother:
    """Kernel ridge regression on public rows: k(x, z) = 1 + x'z/d + exp(-|x - z|^2 / (2 h^2)).

    Features are standardised by the public rows, and h is the root mean square distance between them.
    The linear part extends linear models to any row; the Gaussian part adds curvature.
    """

    def __init__(self, public: AnyArray) -> None:
        rows = np.asarray(public, dtype=float).reshape(len(public), -1)
        self._centre, spread = centre_and_spread(rows)
        self._scale = spread * np.sqrt(rows.shape[1])
        self._rows = self._standard(rows)
        self._width = 2.0  # |x - z|^2 of standardised rows over d has the mean 2
        kernel = self._kernel(self._rows)
        kernel[np.diag_indices(len(kernel))] += RIDGE * np.trace(kernel) / len(kernel)
        self._factor = cho_factor(kernel)

    def coefficients(self, answers: FloatArray) -> FloatArray:
        """Return the kernel coefficients of answers (rows, outputs) on the public rows."""
        return np.asarray(cho_solve(self._factor, answers))

    def weights(self, X: AnyArray) -> FloatArray:
        """Return K such that ``K @ coefficients`` is the guess on rows X."""
        rows = np.asarray(X, dtype=float).reshape(len(X), -1)
        return self._kernel(self._standard(rows))

    def carrying(self, X: AnyArray) -> FloatArray:
        """Return W such that ``W @ answers`` is the guess on rows X: for few rows, many nodes.

        Rows whose squares overflow give NaN.
        """
        return np.asarray(cho_solve(self._factor, self.weights(X).T, check_finite=False).T)

    def _standard(self, rows: FloatArray) -> FloatArray:
        return np.asarray((rows - self._centre) / self._scale)

    def _kernel(self, rows: FloatArray) -> FloatArray:
        inner = rows @ self._rows.T
        square = np.square(rows).sum(axis=1)[:, None] + np.square(self._rows).sum(axis=1)
        apart = np.maximum(square - 2 * inner, 0.0)
        return np.asarray(1.0 + inner + np.exp(-apart / (2 * self._width)))
