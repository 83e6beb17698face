"""Federate, pool or stay local? All ways of learning on repeated random splits of one table."""

from fedrelax.comparison.advice import advise
from fedrelax.comparison.choosing import choose
from fedrelax.comparison.intervals import Interval, corrected_interval
from fedrelax.comparison.outcome import Comparison
from fedrelax.comparison.running import compare_ways
from fedrelax.comparison.together import Together
from fedrelax.comparison.ways import usual_ways, ways_by_name

__all__ = [
    "Comparison",
    "Interval",
    "Together",
    "advise",
    "choose",
    "compare_ways",
    "corrected_interval",
    "usual_ways",
    "ways_by_name",
]
