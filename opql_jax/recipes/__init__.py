"""Experiments, and the tables of their results."""
