"""The estimators: FedRelax with scikit-learn's interface."""

from fedrelax.estimators.fedrelax import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.estimators.rows import one_of

__all__ = ["FedRelaxClassifier", "FedRelaxRegressor", "one_of"]
