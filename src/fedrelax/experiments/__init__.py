"""Measurements that the documentation's statements come from; each is a command of its own."""
