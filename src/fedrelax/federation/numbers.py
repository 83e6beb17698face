"""What a site reports of a round: a few numbers per lane, and one per lane and neighbour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedrelax.federation.codec import Envelope, Refused, from_npy, to_npy
from fedrelax.runtime import SiteMeasure
from fedrelax.typing import Label

NAMES = ("local_loss", "gtv", "pull", "validation_loss", "validation_rows", "change", "size")
"""The numbers of a lane, in this order."""
MAY_BE_MISSING = ("validation_loss", "change")
"""Without held-out rows there is no validation loss, and at first the change is infinite."""


def write_numbers(
    measures: Mapping[int, SiteMeasure], neighbours: Sequence[str]
) -> dict[str, bytes]:
    """Return the numbers of lanes as the parts of a letter."""
    numbers = [[float(getattr(one, name)) for name in NAMES] for one in measures.values()]
    edges = [
        [one.discrepancies.get(name, np.nan) for name in neighbours] for one in measures.values()
    ]
    shape = len(measures), len(neighbours)
    return {
        "numbers": to_npy(np.array(numbers, dtype=float).reshape(len(measures), len(NAMES))),
        "edges": to_npy(np.array(edges, dtype=float).reshape(shape)),
    }


def read_numbers(
    letter: Envelope, lanes: Sequence[int], neighbours: Sequence[str]
) -> dict[int, SiteMeasure]:
    """Return what a letter reports of these lanes, or refuse it."""
    shape = len(lanes), len(NAMES)
    numbers = from_npy(letter.part("numbers"), shape, "a report", finite=False)
    edges = from_npy(letter.part("edges"), (len(lanes), len(neighbours)), "a report", finite=False)
    for name, column in zip(NAMES, numbers.T, strict=True):
        known = column if name not in MAY_BE_MISSING else column[np.isfinite(column)]
        if not np.isfinite(known).all() or (known < 0).any():
            raise Refused(f"a report has a {name} that is negative, NaN or infinite")
    if np.isinf(edges).any() or (edges < 0).any():
        raise Refused("a report has a discrepancy that is negative or infinite")
    found = {}
    for lane, line, near in zip(lanes, numbers.tolist(), edges.tolist(), strict=True):
        values = dict(zip(NAMES, line, strict=True))
        heard: dict[Label, float] = {
            name: d for name, d in zip(neighbours, near, strict=True) if not np.isnan(d)
        }
        found[lane] = SiteMeasure(
            **{**values, "validation_rows": int(values["validation_rows"])}, discrepancies=heard
        )
    return found
