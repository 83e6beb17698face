"""Differential privacy of what is exchanged: an accountant, and a layer around the exchange."""

from fedrelax.privacy.accountant import GaussianMechanism
from fedrelax.privacy.statistics import PrivateStatistics

__all__ = ["GaussianMechanism", "PrivateStatistics"]
