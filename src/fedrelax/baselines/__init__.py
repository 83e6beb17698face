"""What FedRelax is compared with: one class per method, all behind ``Baseline``."""

from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.descent import IFCA, Descent, Ditto, FedAvg, FedProx
from fedrelax.baselines.federated import Federation
from fedrelax.baselines.fedmd import FedMD
from fedrelax.baselines.grouped import Alone, Oracle, Pooled
from fedrelax.baselines.mixed import MixedModel
from fedrelax.baselines.network_lasso import NetworkLasso
from fedrelax.baselines.pooled_node import PooledNode
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
