"""Choosing alpha, wiring and the number of rounds on the nodes' own training rows."""

from fedrelax.selection.candidates import (
    LEVELS,
    STRENGTHS,
    Candidate,
    alphas_for,
    candidates,
    candidates_for,
    is_open,
)
from fedrelax.selection.choice import Choice
from fedrelax.selection.plan import Plan, Search
from fedrelax.selection.search import FOLDS, TRIES, choose, fold_rows
from fedrelax.selection.whole import Whole, choose_whole

__all__ = [
    "FOLDS",
    "LEVELS",
    "STRENGTHS",
    "TRIES",
    "Candidate",
    "Choice",
    "Plan",
    "Search",
    "Whole",
    "alphas_for",
    "candidates",
    "candidates_for",
    "choose",
    "choose_whole",
    "fold_rows",
    "is_open",
]
