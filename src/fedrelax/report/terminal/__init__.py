"""The tables that the command line prints: from data to renderables, nothing is printed here."""

from fedrelax.report.terminal.comparison import comparison_report
from fedrelax.report.terminal.tables import evaluation_report, fact_table, kind_table

__all__ = ["comparison_report", "evaluation_report", "fact_table", "kind_table"]
