"""How rounds are executed: sites, messages, workers, the loop."""

from fedrelax.runtime.callbacks import Callback, Keeper, StopOnLocalLoss
from fedrelax.runtime.exchange import Exchange, Layer, LocalExchange, Message
from fedrelax.runtime.history import History, NodeMeasures, Record, SiteMeasure
from fedrelax.runtime.rounds import Loop, Outcome, Steps, Stopping
from fedrelax.runtime.settings import Coupling, Distillation, RoundSettings, Settings
from fedrelax.runtime.site import Site
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
    "Loop",
    "Message",
    "NodeMeasures",
    "Outcome",
    "Record",
    "RoundSettings",
    "Settings",
    "Site",
    "SiteMeasure",
    "Steps",
    "StopOnLocalLoss",
    "Stopping",
    "Workers",
]
