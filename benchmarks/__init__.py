"""Measurements behind the documentation's numbers: ``python -m benchmarks.NAME`` in a checkout."""
