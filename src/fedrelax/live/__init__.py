"""Watch a run on a page that this machine serves (the extra ``live``)."""

from fedrelax.live.callback import LiveView

__all__ = ["LiveView"]
