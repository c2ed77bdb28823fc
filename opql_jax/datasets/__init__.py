"""Readers of public data sets, a file each."""
