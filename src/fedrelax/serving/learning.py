"""How a service learns: new rows give a new result, which is taken back if it cannot be served."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

Learn = Callable[[Any], AbstractContextManager[Path]]
"""Takes new rows, a table with the training columns, the target and the node, and gives the directory of
the result that has learned them. If the block fails, these rows are forgotten and the directory is gone."""
