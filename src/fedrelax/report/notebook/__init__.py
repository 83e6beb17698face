"""What a notebook shows of a result, an estimator, a network or a graph."""

from fedrelax.report.notebook.fragments import (
    MOST_NODES,
    estimator_html,
    graph_html,
    network_html,
    result_html,
)

__all__ = ["MOST_NODES", "estimator_html", "graph_html", "network_html", "result_html"]
