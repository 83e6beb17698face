"""Networks of linear models with nothing to set: every setting is found from the rows of all nodes."""
