"""The ``fedrelax`` command line."""

from fedrelax.cli.app import main

__all__ = ["main"]
