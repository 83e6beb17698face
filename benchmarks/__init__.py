"""Measurements behind the documentation's numbers: run ``python -m benchmarks.NAME`` in a checkout."""
