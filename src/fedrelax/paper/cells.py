"""One curve of a figure: the data, the method and what is measured."""

from __future__ import annotations

from dataclasses import dataclass

from fedrelax.datasets import SyntheticNetwork, clustered, mixture, single_cluster

ROWS = 10
"""Training rows per node in all of the paper's experiments."""
VALIDATION_ROWS = 100


@dataclass(frozen=True)
class Cell:
    """What defines one curve; a cell that two figures share is computed once.

    data : "clustered" (3 x 50 nodes), "benchmark" (5 x 30), "mixture" (150) or "single" (50).
    model : "linear" or "tree".
    metric : "MSE_w", "MSE_val", "variation" or "bound" (of the variation).
    alpha : None for methods without one.
    """

    data: str
    model: str
    method: str
    metric: str
    d: int
    sigma: float = 0.0
    p_in: float = 0.8
    alpha: float | None = None
    first_exchange: str = "models"

    @property
    def key(self) -> str:
        """A file name that contains all settings."""
        parts = [self.data, self.model, self.method, self.metric, f"d{self.d}"]
        parts += [f"sigma{self.sigma:g}", f"pin{self.p_in:g}"]
        if self.alpha is not None:
            parts.append(f"alpha{self.alpha:g}")
        return "-".join([*parts, self.first_exchange]).replace(" ", "_")

    def draw(self, seed: int) -> SyntheticNetwork:
        """Return the local datasets; cells that differ in method or alpha get the same."""
        held = VALIDATION_ROWS if self.metric == "MSE_val" else 0
        if self.data == "mixture":
            return mixture(m=ROWS, d=self.d, sigma=self.sigma, m_val=held, random_state=seed)
        if self.data == "single":
            return single_cluster(
                m=ROWS, d=self.d, sigma=self.sigma, p_in=self.p_in, m_val=held, random_state=seed
            )
        sizes = (50,) * 3 if self.data == "clustered" else (30,) * 5
        if self.data == "benchmark":
            held = VALIDATION_ROWS  # The further baselines choose their settings on these rows.
        return clustered(
            sizes,
            m=ROWS,
            d=self.d,
            sigma=self.sigma,
            p_in=self.p_in,
            m_val=held,
            random_state=seed,
        )
