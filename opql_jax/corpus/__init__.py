"""Text to tables: documents, mentions, entities, passages, pairs and questions, without JAX."""
