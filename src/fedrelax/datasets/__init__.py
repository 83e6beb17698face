"""Data to learn from: the paper's synthetic networks, two real tasks, and a user's own table."""

from __future__ import annotations

from fedrelax.datasets.examples import (
    DigitsByWriter,
    Weather,
    digits_by_writer,
    example_table,
    labelled_split,
    load_weather,
)
from fedrelax.datasets.synthetic import SyntheticNetwork, clustered, mixture
from fedrelax.datasets.tables import Table, prepare_table
from fedrelax.schema.reading import read_table

__all__ = [
    "DigitsByWriter",
    "SyntheticNetwork",
    "Table",
    "Weather",
    "clustered",
    "digits_by_writer",
    "example_table",
    "labelled_split",
    "load_weather",
    "mixture",
    "prepare_table",
    "read_table",
]
