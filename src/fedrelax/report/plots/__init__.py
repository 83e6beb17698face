"""Pictures by matplotlib (the extra ``report``), which is imported only when one is drawn."""

from fedrelax.report.plots.pictures import Plots, save_result_picture

__all__ = ["Plots", "save_result_picture"]
