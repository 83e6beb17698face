"""Networks that live on: nodes join, learn new rows and leave, and only their surroundings refit."""

from fedrelax.living.changes import Change
from fedrelax.living.network import LivingNetwork

__all__ = ["Change", "LivingNetwork"]
