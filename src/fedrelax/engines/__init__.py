"""Compiled and batched ways to run the rounds of many nodes at once."""
