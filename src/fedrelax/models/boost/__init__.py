"""XGBoost and LightGBM as local models (extra ``boost``)."""

from fedrelax.models.boost.model import BoostModel, CodedClassifier, is_boosted, lightgbm, xgboost

__all__ = ["BoostModel", "CodedClassifier", "is_boosted", "lightgbm", "xgboost"]
