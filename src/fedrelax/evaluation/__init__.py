"""Did it help? One object from the measurement to the page: errors alone, pooled and together."""

from fedrelax.evaluation.evaluation import (
    ALONE,
    POOLED,
    TOGETHER,
    WAYS,
    Evaluation,
    Gap,
    errors_of,
    evaluate,
    gains,
)
from fedrelax.evaluation.measures import MEASURES, Interval, Measure, get_measure, student_interval

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
