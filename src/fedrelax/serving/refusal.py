"""A request that is not answered: an HTTP status and one sentence."""

from __future__ import annotations

from fedrelax.errors import FedRelaxError

LONGEST = 500
"""The most letters of a sentence, which may quote what was sent."""


class Refusal(FedRelaxError):  # noqa: N818 - what is said, not what went wrong
    """Why a request is not answered."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def sentence_of(error: FedRelaxError) -> dict[str, str]:
    """Return the answer to a refused request.

    >>> sentence_of(Refusal(404, "there is no node 'x'"))
    {'error': "there is no node 'x'"}
    """
    text = str(error)
    return {"error": text if len(text) <= LONGEST else text[:LONGEST] + "..."}
