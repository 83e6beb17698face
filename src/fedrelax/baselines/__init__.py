"""What FedRelax is compared with: one class per method, all behind ``Baseline``."""

from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.descent import IFCA, Descent, Ditto, FedAvg, FedProx, NetworkLasso
from fedrelax.baselines.exchange import Federation, FedMD
from fedrelax.baselines.grouped import Alone, Oracle, Pooled, PooledNode
from fedrelax.baselines.mixed import MixedModel
from fedrelax.members import members

BASELINES: dict[str, type[Baseline]] = members(__name__, Baseline)

__all__ = [
    "BASELINES",
    "IFCA",
    "Alone",
    "Baseline",
    "Descent",
    "Ditto",
    "FedAvg",
    "FedMD",
    "FedProx",
    "Federation",
    "MixedModel",
    "NetworkLasso",
    "Oracle",
    "Pooled",
    "PooledNode",
    "Run",
]
