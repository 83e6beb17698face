"""A run to watch while it runs, on a page of this machine (the extra ``live``)."""

from fedrelax.live.callback import LiveView

__all__ = ["LiveView"]
