"""Text to tables: documents, mentions, entities, passages, pairs and questions.

Nothing here knows a tokenizer or an array library for accelerators: token counts come in as a
function, everything that leaves is an Arrow table in a prepared directory.
"""
