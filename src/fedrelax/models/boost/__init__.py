"""XGBoost, LightGBM and CatBoost as local models (extra ``boost``; install CatBoost yourself)."""

from fedrelax.models.boost.model import BoostModel, CodedClassifier, is_boosted, lightgbm, xgboost

__all__ = ["BoostModel", "CodedClassifier", "is_boosted", "lightgbm", "xgboost"]
