"""XGBoost, LightGBM and CatBoost as local models (extra ``boost``; install CatBoost yourself)."""

from fedrelax.models.boost.classifier import BoostedClassifier, CodedClassifier
from fedrelax.models.boost.model import BoostModel, is_boosted, lightgbm, xgboost

__all__ = [
    "BoostModel",
    "BoostedClassifier",
    "CodedClassifier",
    "is_boosted",
    "lightgbm",
    "xgboost",
]
