"""Clusters that run the fits of a round: Dask and Ray behind one small interface."""

from fedrelax.runtime.clusters.base import Cluster, ClusterError
from fedrelax.runtime.clusters.starting import cluster_for, cluster_of_joblib, reachable

__all__ = ["Cluster", "ClusterError", "cluster_for", "cluster_of_joblib", "reachable"]
