"""Ways to train a network."""

from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.choice import solve_by_engine, why_not_linear
from fedrelax.solvers.fedrelax import FedRelax
from fedrelax.solvers.linear import LinearFedRelax

__all__ = ["FedRelax", "LinearFedRelax", "Result", "Solver", "solve_by_engine", "why_not_linear"]
