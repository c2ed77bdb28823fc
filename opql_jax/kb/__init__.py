"""The virtual knowledge base: built, updated, opened, asked and evaluated."""
