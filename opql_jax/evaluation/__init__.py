"""Metrics and evaluators over predictions; no model is opened here."""
