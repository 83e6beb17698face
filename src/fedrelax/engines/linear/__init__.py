"""Networks of linear models, all nodes at once: arrays in, arrays out."""

from fedrelax.engines.linear.accelerate import (
    Solution,
    solve_accelerated,
    solve_conjugate,
)
from fedrelax.engines.linear.engine import LinearEngine
from fedrelax.engines.linear.gradient import GradientRounds
from fedrelax.engines.linear.memory import available_bytes, estimate_bytes, require_memory
from fedrelax.engines.linear.plain import SequentialRounds
from fedrelax.engines.linear.problem import LinearProblem
from fedrelax.engines.linear.residuals import RowResiduals
from fedrelax.engines.linear.update import ExactUpdate
from fedrelax.engines.linear.variation import Variation

__all__ = [
    "ExactUpdate",
    "GradientRounds",
    "LinearEngine",
    "LinearProblem",
    "RowResiduals",
    "SequentialRounds",
    "Solution",
    "Variation",
    "available_bytes",
    "estimate_bytes",
    "require_memory",
    "solve_accelerated",
    "solve_conjugate",
]
