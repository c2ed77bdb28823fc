"""Errors, files, locks, processes: what every room may use, without domain knowledge."""
