"""The engine for any mix of models: every node is a separate site."""

from fedrelax.engines.sites.engine import SiteEngine

__all__ = ["SiteEngine"]
