"""Trees."""
