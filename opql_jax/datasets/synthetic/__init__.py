"""A generated world: its text, its questions, and their wordings."""
