"""Choosing alpha, wiring and the number of rounds on the nodes' own training rows."""

from fedrelax.selection.candidates import STRENGTHS, Candidate, alphas_for, candidates, is_open
from fedrelax.selection.choice import Choice
from fedrelax.selection.search import FOLDS, TRIES, choose, fold_rows

__all__ = [
    "FOLDS",
    "STRENGTHS",
    "TRIES",
    "Candidate",
    "Choice",
    "alphas_for",
    "candidates",
    "choose",
    "fold_rows",
    "is_open",
]
