"""Graphs from trained models: nodes whose models say the same of the same rows are joined.

V. Kalofolias, "How to learn a graph from smooth signals", AISTATS 2016;
V. Kalofolias and N. Perraudin, "Large scale graph learning from smooth signals", ICLR 2019.
"""
