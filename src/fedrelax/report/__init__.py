"""What a run showed, as a page, pictures, notebook output and tables, all from the same data."""

from fedrelax.report.data import ReportData, report_data
from fedrelax.report.page import report_html, write_report

__all__ = ["ReportData", "report_data", "report_html", "write_report"]
