"""Choosing alpha, wiring and the number of rounds on the nodes' own training rows."""

from fedrelax.selection.candidates import (
    LEVELS,
    Candidate,
    alphas_for,
    candidates_for,
    is_open,
)
from fedrelax.selection.choice import Choice
from fedrelax.selection.default import Default
from fedrelax.selection.plan import Plan, Search
from fedrelax.selection.search import FOLDS, TRIES, choose, fold_rows

__all__ = [
    "FOLDS",
    "LEVELS",
    "TRIES",
    "Candidate",
    "Choice",
    "Default",
    "Plan",
    "Search",
    "alphas_for",
    "candidates_for",
    "choose",
    "fold_rows",
    "is_open",
]
