"""The paper's figures, computed anew: ``fedrelax reproduce``."""
