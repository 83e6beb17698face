"""What a run showed, in numbers, words, tables, a picture and a page."""

from fedrelax.report.summary import Summary, summarise
from fedrelax.report.writing import report_html, write_report

__all__ = ["Summary", "report_html", "summarise", "write_report"]
