"""A saved result that answers over HTTP (the extra ``live``)."""

from fedrelax.serving.application import Application
from fedrelax.serving.served import Served

__all__ = ["Application", "Served"]
