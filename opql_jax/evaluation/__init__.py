"""Asking a virtual knowledge base, and measuring its answers."""
