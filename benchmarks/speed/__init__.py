"""Benchmarks: what counts is the ratio of two things measured in the same run."""
