"""The command line: ``fedrelax fit``, ``predict``, ``info`` and ``demo``."""

from fedrelax.cli.app import main

__all__ = ["main"]
