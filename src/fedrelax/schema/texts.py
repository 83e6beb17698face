"""Free text: a code inside the program, and a few hashed numbers to a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

HASHED = 12
"""How many numbers a model sees of a text."""


class Texts:
    """The texts of a column that this process has seen; a row holds a text's number.

    None of this is saved or shared: what a model sees is a hash of the text itself. Number 0 is the
    empty text in every process, so that a row of zeros means something.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again: the numbers of texts seen so far lose their meaning."""
        self._codes: dict[str, int] = {"": 0}
        self._hashed = np.zeros((0, HASHED))

    def codes(self, values: Iterable[str]) -> FloatArray:
        """Return the number of each text; a text not seen before gets a new one."""
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
    """Return counts of the texts' letter groups, hashed and scaled to length 1; similar texts are close.

    >>> a, b, c = hashed(["corner shop", "corner shops", "airport"])
    >>> bool(a @ b > a @ c)
    True
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    vectors = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=HASHED)
    return np.asarray(vectors.transform([text.lower() for text in texts]).toarray())
