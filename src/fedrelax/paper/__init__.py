"""The paper's figures, recomputed: ``fedrelax reproduce``."""
