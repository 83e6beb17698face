"""What a run showed, in numbers, words, tables and a picture."""

from fedrelax.report.summary import Summary, summarise

__all__ = ["Summary", "summarise"]
