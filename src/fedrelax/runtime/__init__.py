"""How rounds are executed: sites, messages, workers, the loop."""

from fedrelax.runtime.backends import running_on
from fedrelax.runtime.callbacks import Callback, StopOnLocalLoss
from fedrelax.runtime.history import History, NodeMeasures, Record
from fedrelax.runtime.keeping import Keeper
from fedrelax.runtime.layers import Layer
from fedrelax.runtime.messages import Exchange, LocalExchange, Message
from fedrelax.runtime.rounds import Outcome, Steps, Stopping, run, stepwise
from fedrelax.runtime.site import Coupling, Distillation, Site, SiteMeasure
from fedrelax.runtime.traffic import counting
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
    "Site",
    "SiteMeasure",
    "Steps",
    "StopOnLocalLoss",
    "Stopping",
    "Workers",
    "counting",
    "run",
    "running_on",
    "stepwise",
]
