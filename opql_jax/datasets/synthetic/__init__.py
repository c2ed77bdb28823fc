"""A generated world of films, people, companies, cities and books: its text and questions about it.

`world` draws entities and facts from a seed, `pages` writes the text, `questions` asks about it,
and `lm_world` withholds facts from the text, for language models with a memory.
"""
