"""Choosing alpha, wiring and the number of rounds on the nodes' own training rows."""

from fedrelax.selection.choice import STRENGTHS, Choice, usual_alphas, wiring_name
from fedrelax.selection.choosing import FOLDS, PATIENCE, TRIES, choose, choose_alpha
from fedrelax.selection.search import Line, search

__all__ = [
    "FOLDS",
    "PATIENCE",
    "STRENGTHS",
    "TRIES",
    "Choice",
    "Line",
    "choose",
    "choose_alpha",
    "search",
    "usual_alphas",
    "wiring_name",
]
