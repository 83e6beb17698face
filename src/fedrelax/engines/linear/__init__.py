"""Networks of linear models, all nodes at once: arrays in, arrays out."""

from fedrelax.engines.linear.engine import LinearEngine
from fedrelax.engines.linear.gradient import GradientRounds

__all__ = ["GradientRounds", "LinearEngine"]
