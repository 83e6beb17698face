"""What is in a box: public rows before the first round, then predictions of every lane.

Predictions of one lane take ``5 + 128 + 8 m k`` bytes: the lane's number (4), on whose public rows (1),
and an ``.npy`` array of m public rows by k outputs. A sealed box adds 29 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from fedrelax.federation.codec import Refused, from_npy, npy_bytes, to_npy
from fedrelax.federation.sealing import NONCE, TAG
from fedrelax.typing import FloatArray

ENTRY = struct.Struct("<IB")
"""The number of a lane, and whose rows: 0 the sender's (or common ones), 1 the receiver's."""
OWN, THEIRS = 0, 1

Predictions = dict[int, dict[int, FloatArray]]
"""Lane -> whose rows -> predictions."""


def box_bytes(lanes: int, rows: int, outputs: int) -> int:
    """Return the size of a sealed box of predictions on one set of public rows.

    >>> box_bytes(lanes=1, rows=100, outputs=1)
    962
    """
    return 1 + NONCE + TAG + lanes * (ENTRY.size + npy_bytes(rows, outputs))


def write_predictions(predictions: Predictions) -> bytes:
    """Return predictions as bytes."""
    found = []
    for lane, answers in predictions.items():
        for whose, array in answers.items():
            found += [ENTRY.pack(lane, whose), to_npy(array)]
    return b"".join(found)


def read_predictions(
    content: bytes, rows: Mapping[int, int], outputs: int, lanes: Collection[int]
) -> Predictions:
    """Return the predictions in a box; ``rows`` gives the number of public rows of each owner.

    The whole box is refused if anything in it is of an unknown lane or another shape, or not finite.
    """
    place, found = 0, Predictions()
    while place < len(content):
        if place + ENTRY.size > len(content):
            raise Refused("predictions are truncated")
        lane, whose = ENTRY.unpack_from(content, place)
        if lane not in lanes or whose not in rows or whose in found.get(lane, {}):
            raise Refused(f"predictions of lane {lane} were not asked for, or came twice")
        shape = (rows[whose], outputs)
        start, place = place + ENTRY.size, place + ENTRY.size + npy_bytes(*shape)
        if place > len(content):
            raise Refused(
                f"predictions of lane {lane} are truncated or have another shape than {shape}"
            )
        array = from_npy(content[start:place], shape, f"predictions of lane {lane}")
        found.setdefault(lane, {})[whose] = array
    return found
