"""The paper's figures: which curves they show, how each is computed, and what the paper says of them."""
