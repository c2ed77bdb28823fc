"""Errors, files, locks, processes: what every package may use, without domain knowledge."""
