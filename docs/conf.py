"""Sphinx's configuration of these pages; `launch/docs.sh` builds them."""

project = 'opql_jax'
author = 'The opql_jax authors'
extensions = ['myst_parser']
myst_heading_anchors = 3
html_theme = 'sphinx_book_theme'
html_title = 'opql_jax'
