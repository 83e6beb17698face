"""How a service learns: a function from new rows to a new result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Learn = Callable[[Any], Path]
"""Takes new rows, a table with the training columns, the target and the node, and returns the directory
of the result that has learned them."""
