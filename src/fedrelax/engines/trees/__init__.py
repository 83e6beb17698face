"""The engine for networks of trees and forests on one common public set: all nodes at once."""

from fedrelax.engines.trees.engine import TreeEngine

__all__ = ["TreeEngine"]
