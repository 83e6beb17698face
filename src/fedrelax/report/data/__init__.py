"""What is shown: one model of a run that the page, the pictures, the notebook and the tables share."""

from fedrelax.report.data.report_data import ReportData, report_data

__all__ = ["ReportData", "report_data"]
