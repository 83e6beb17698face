"""Results on disk: whole directories, models without pickle."""

from fedrelax.storage.loading import SavedResult, load_result, read_result
from fedrelax.storage.saving import save_result

__all__ = ["SavedResult", "load_result", "read_result", "save_result"]
