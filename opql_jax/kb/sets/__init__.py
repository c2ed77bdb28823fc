"""Weighted sets of entities: their algebra, its query language, and its gradients."""
