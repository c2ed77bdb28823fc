"""Text to tables: documents, mentions, entities, passages, pairs and questions.

Nothing here knows a tokenizer or JAX: token counts come in as a function, and what comes out are
Arrow tables and question files in a prepared folder.
"""
