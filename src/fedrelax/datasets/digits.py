"""Handwritten digits by writer: a classification task whose nodes are people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.typing import AnyArray, FloatArray, IntArray

WRITER_STARTS = (
    *(0, 130, 256, 386, 516, 646, 776),
    *(906, 1029, 1157, 1287, 1415, 1545, 1667),
)
"""The first row of each writer.

The data do not name the writers. Everyone copied the same preprinted form of 130 digits, of which
some images are missing, and the rows keep the order of the form: a writer starts where the form
starts again. That gives 14 forms, although the description of the data speaks of 13 people.
"""


@dataclass(frozen=True, eq=False)
class DigitsByWriter:
    """The 1797 images of 8 x 8 pixels that come with scikit-learn, with the writer of each."""

    X: FloatArray
    """Pixels in [0, 1], (1797, 64)."""
    y: IntArray
    """The digit, (1797,)."""
    writers: AnyArray
    """The writer, ``"writer 01"`` to ``"writer 14"``, (1797,)."""


def digits_by_writer() -> DigitsByWriter:
    """Load the digits that come with scikit-learn, split by writer; nothing is downloaded.

    Each of the 14 writers gave about 130 images, close to balanced over the ten digits.

    >>> digits = digits_by_writer()
    >>> digits.X.shape, len(set(digits.writers))
    ((1797, 64), 14)
    """
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    writer = np.searchsorted(WRITER_STARTS, np.arange(len(digit)), side="right")
    names = np.array([f"writer {k:02d}" for k in range(len(WRITER_STARTS) + 1)], dtype=object)
    return DigitsByWriter(
        X=np.asarray(pixels, dtype=np.float64) / 16.0,
        y=np.asarray(digit, dtype=np.int64),
        writers=names[writer],
    )
