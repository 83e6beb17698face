"""Did it help? One object from the measurement to the page: errors alone, pooled and together."""

from fedrelax.evaluation.evaluation import ALONE, POOLED, TOGETHER, WAYS, Evaluation, Gap, gains
from fedrelax.evaluation.intervals import Interval, student_interval
from fedrelax.evaluation.measures import MEASURES, Measure, get_measure
from fedrelax.evaluation.measuring import errors_of, evaluate

__all__ = [
    "ALONE",
    "MEASURES",
    "POOLED",
    "TOGETHER",
    "WAYS",
    "Evaluation",
    "Gap",
    "Interval",
    "Measure",
    "errors_of",
    "evaluate",
    "gains",
    "get_measure",
    "student_interval",
]
