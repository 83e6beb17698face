"""Networks of linear models without hyper-parameters to set: all are found from the nodes' rows."""
