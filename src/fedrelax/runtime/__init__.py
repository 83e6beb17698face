"""How rounds are executed: sites, messages, workers, the loop."""

from fedrelax.runtime.callbacks import Callback
from fedrelax.runtime.engine import SiteEngine
from fedrelax.runtime.history import History, Record
from fedrelax.runtime.messages import Exchange, LocalExchange, Message
from fedrelax.runtime.rounds import Engine, Outcome, Stopping, run
from fedrelax.runtime.site import Coupling, Distillation, Site
from fedrelax.runtime.workers import Workers

__all__ = [
    "Callback",
    "Coupling",
    "Distillation",
    "Engine",
    "Exchange",
    "History",
    "LocalExchange",
    "Message",
    "Outcome",
    "Record",
    "Site",
    "SiteEngine",
    "Stopping",
    "Workers",
    "run",
]
