"""What federated learning is compared with."""

from fedrelax.baselines.pooled import Pooled

__all__ = ["Pooled"]
