"""What is shown: one description of a run, shared by the page, pictures, notebook output and tables."""

from fedrelax.report.data.report_data import ReportData, report_data

__all__ = ["ReportData", "report_data"]
