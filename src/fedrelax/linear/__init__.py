"""Linear algebra over all nodes at once: Gram matrices, fixed points, Newton's method for softmax."""

from fedrelax.linear.fixed_point import ExactUpdate, NeighbourTerms, Solution, solve_fixed_point
from fedrelax.linear.problem import LinearProblem

__all__ = [
    "ExactUpdate",
    "LinearProblem",
    "NeighbourTerms",
    "Solution",
    "solve_fixed_point",
]
