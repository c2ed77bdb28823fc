"""Followers and language models over a memory: opened, trained on questions, evaluated."""
