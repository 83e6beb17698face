"""What the second look of a rewiring is worth: the paper's benchmark without a graph, with it and without.

``python -m benchmarks.second_look [SEEDS]`` prints the error of the weights of each drawn network, at one
fixed alpha, so that nothing but the second look differs.
"""

from __future__ import annotations

import math
import sys
from unittest.mock import patch

from threadpoolctl import threadpool_limits

from benchmarks.wiring import CLUSTERED, fitted, weights_error
from fedrelax.wiring import rewire

ALPHA = 0.0002
"""About what ``alpha="auto"`` chooses on these networks."""


def main(seeds: int = 5) -> None:
    """Print one line per network: the error with the second look, and without it."""
    print(f"{'seed':>4} {'with':>8} {'without':>8}")
    for seed in range(seeds):
        data = CLUSTERED["no graph"].draw(seed)
        errors = []
        # Nobody fits infinitely better, so then nobody changes sides.
        for far in (rewire.FAR, math.inf):
            with patch.object(rewire, "FAR", far), threadpool_limits(1):
                fit = fitted(data, graph=False, alpha=ALPHA, wiring="discover")
            errors.append(weights_error(fit, data))
        print(f"{seed:4} {errors[0]:8.4f} {errors[1]:8.4f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
