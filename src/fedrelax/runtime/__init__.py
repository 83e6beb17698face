"""How rounds are executed: sites, messages, workers, the loop."""

from fedrelax.runtime.callbacks import Callback, Keeper, StopOnLocalLoss
from fedrelax.runtime.exchange import Exchange, Layer, LocalExchange, Message, Settings
from fedrelax.runtime.history import History, NodeMeasures, Record
from fedrelax.runtime.rounds import Outcome, Steps, Stopping, run, stepwise
from fedrelax.runtime.site import Coupling, Distillation, Site, SiteMeasure
from fedrelax.runtime.workers import Workers

__all__ = [
    "Callback",
    "Coupling",
    "Distillation",
    "Exchange",
    "History",
    "Keeper",
    "Layer",
    "LocalExchange",
    "Message",
    "NodeMeasures",
    "Outcome",
    "Record",
    "Settings",
    "Site",
    "SiteMeasure",
    "Steps",
    "StopOnLocalLoss",
    "Stopping",
    "Workers",
    "run",
    "stepwise",
]
