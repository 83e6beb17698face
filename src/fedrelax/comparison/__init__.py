"""Federate, pool or stay alone? All ways of learning on repeated random splits of one table."""

from fedrelax.comparison.outcome import Comparison, advise
from fedrelax.comparison.running import compare_ways
from fedrelax.comparison.ways import Together, usual_ways, ways_by_name

__all__ = [
    "Comparison",
    "Together",
    "advise",
    "compare_ways",
    "usual_ways",
    "ways_by_name",
]
