"""Federate, pool or stay alone? All ways of learning on repeated random splits of one table."""

from fedrelax.comparison.advice import advise
from fedrelax.comparison.outcome import Comparison
from fedrelax.comparison.running import compare_ways
from fedrelax.comparison.together import Together
from fedrelax.comparison.ways import usual_ways, ways_by_name

__all__ = [
    "Comparison",
    "Together",
    "advise",
    "compare_ways",
    "usual_ways",
    "ways_by_name",
]
