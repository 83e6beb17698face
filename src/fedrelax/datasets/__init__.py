"""Data to learn from: the paper's synthetic networks, two real tasks, and a user's own table."""

from __future__ import annotations

from fedrelax.datasets.digits import DigitsByWriter, digits_by_writer
from fedrelax.datasets.example import example_table
from fedrelax.datasets.files import read_table
from fedrelax.datasets.labelled import labelled_split
from fedrelax.datasets.synthetic import SyntheticNetwork, clustered, mixture, single_cluster
from fedrelax.datasets.tables import Table, prepare_table
from fedrelax.datasets.weather import Weather, load_weather

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
    "single_cluster",
]
