"""The engine for any mix of models: every node a site of its own."""

from fedrelax.engines.sites.engine import SiteEngine

__all__ = ["SiteEngine"]
