"""What FedRelax is compared with: one class per method, all behind ``Baseline``."""

from fedrelax.baselines.alone import Alone
from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.descent import Descent
from fedrelax.baselines.ditto import Ditto
from fedrelax.baselines.fedavg import FedAvg
from fedrelax.baselines.fedmd import FedMD
from fedrelax.baselines.fedprox import FedProx
from fedrelax.baselines.ifca import IFCA
from fedrelax.baselines.mixed import MixedModel
from fedrelax.baselines.network_lasso import NetworkLasso
from fedrelax.baselines.oracle import Oracle
from fedrelax.baselines.pooled import Pooled
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
    "MixedModel",
    "NetworkLasso",
    "Oracle",
    "Pooled",
    "PooledNode",
    "Run",
]
