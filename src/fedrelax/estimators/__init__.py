"""The estimators: FedRelax with scikit-learn's interface."""

from fedrelax.estimators.arguments import one_of
from fedrelax.estimators.base import FOLD_STREAM
from fedrelax.estimators.classifier import FedRelaxClassifier
from fedrelax.estimators.regressor import FedRelaxRegressor

__all__ = ["FOLD_STREAM", "FedRelaxClassifier", "FedRelaxRegressor", "one_of"]
