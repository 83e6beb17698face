"""Results and checkpoints on disk: written completely or not at all, and without pickle."""

from fedrelax.storage.checkpoints import Checkpoint
from fedrelax.storage.loading import SavedResult, load_result, read_result
from fedrelax.storage.saving import save_result

__all__ = ["Checkpoint", "SavedResult", "load_result", "read_result", "save_result"]
