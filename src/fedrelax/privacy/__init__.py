"""Differential privacy of what is exchanged: an accountant, and layers around the exchange."""

from fedrelax.privacy.accountant import GaussianMechanism
from fedrelax.privacy.predictions import PrivatePredictions
from fedrelax.privacy.statistics import PrivateStatistics

__all__ = ["GaussianMechanism", "PrivatePredictions", "PrivateStatistics"]
