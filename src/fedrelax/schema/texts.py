"""Texts of many kinds: each is a code inside the program, and a few hashed numbers to a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

HASHED = 12
"""Numbers that stand for a text."""


class Texts:
    """The texts of a column that this process has met; a row holds a text's number.

    Nothing of it is saved or shared: the numbers that a model sees are a hash of the text itself.
    The number 0 is the empty text's, in every process, so that a row of zeros means something.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: the numbers of texts met so far mean nothing any more."""
        self._codes: dict[str, int] = {"": 0}
        self._hashed = np.zeros((0, HASHED))

    def codes(self, values: Iterable[str]) -> FloatArray:
        """Return the number of each text, a new one for one never met."""
        known = self._codes
        return np.array([known.setdefault(value, len(known)) for value in values], dtype=float)

    def texts(self, codes: FloatArray) -> AnyArray:
        """Return the text of each number."""
        names = np.array([*self._codes, ""], dtype=object)
        return np.asarray(names[codes.astype(np.int64)])

    def hashed(self, codes: FloatArray) -> FloatArray:
        """Return the hashed numbers (rows, HASHED) of each text."""
        new = list(self._codes)[len(self._hashed) :]
        if new:
            self._hashed = np.vstack([self._hashed, hashed(new)])
        return np.asarray(self._hashed[codes.astype(np.int64)])


def hashed(texts: list[str]) -> FloatArray:
    """Return counts of the texts' letter groups, hashed and scaled to one; similar texts are close.

    >>> a, b, c = hashed(["corner shop", "corner shops", "airport"])
    >>> bool(a @ b > a @ c)
    True
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    vectors = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=HASHED)
    return np.asarray(vectors.transform([text.lower() for text in texts]).toarray())
