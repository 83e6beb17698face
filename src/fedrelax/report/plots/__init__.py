"""Pictures by matplotlib (the extra ``report``), which is imported only when one is drawn."""

from fedrelax.report.plots.comparison_picture import save_comparison_picture
from fedrelax.report.plots.methods import Plots
from fedrelax.report.plots.result_picture import save_result_picture

__all__ = ["Plots", "save_comparison_picture", "save_result_picture"]
