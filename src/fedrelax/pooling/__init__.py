"""Partial pooling of linear models: what nodes exchange, and how everything is chosen from it."""
