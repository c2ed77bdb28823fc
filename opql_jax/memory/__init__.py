"""The key-value memory: stored entries, how they are built, and how relations are followed over them."""
