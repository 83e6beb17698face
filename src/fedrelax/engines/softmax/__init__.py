"""The engine for networks of softmax models on one common public set: all nodes at once."""
