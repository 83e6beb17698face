"""The report as one HTML page: Python decides what is on it, ``static/`` draws it."""

from fedrelax.report.page.assembly import REPORT, report_html, write_report

__all__ = ["REPORT", "report_html", "write_report"]
