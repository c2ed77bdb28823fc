"""The key-value memory: its entries, how they are built, and how relations are followed."""
