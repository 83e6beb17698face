"""Federated learning over a graph of unlike models."""
