"""The engine for any mix of models: every node a site of its own."""
