"""Sphinx's configuration of these pages; `launch/docs.sh` builds them."""

import os
import pathlib
import sys

from sphinx.ext.autodoc.mock import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gin_parameters

project = 'opql_jax'
author = 'The opql_jax authors'
extensions = ['myst_nb', 'sphinx.ext.apidoc', 'sphinx.ext.autodoc', 'sphinx.ext.napoleon']
exclude_patterns = ['reference/modules.rst', 'reference/opql_jax.rst']
html_theme = 'sphinx_book_theme'
html_title = 'opql_jax'
myst_enable_extensions = ['dollarmath']
myst_heading_anchors = 3

# The tutorial is run when the pages are built, unless DOCS_NOTEBOOKS=off.
nb_execution_mode = os.environ.get('DOCS_NOTEBOOKS', 'force')
nb_execution_timeout = 900
nb_execution_raise_on_error = True

# A page for each package, from its docstrings.
apidoc_modules = [
    {
        'path': '../opql_jax',
        'destination': 'reference',
        'max_depth': 1,
        'module_first': True,
        'automodule_options': {'members'},
    }
]
autodoc_member_order = 'bysource'
# These cannot be imported in the way that autodoc does, or take long.
autodoc_mock_imports = ['langchain_core', 'llama_index', 'mcp']
autodoc_mock_imports += ['seqio', 'tensorflow', 'tensorflow_datasets']
autodoc_inherit_docstrings = False
default_role = 'code'
# What stands before a colon under Returns is taken for a type, and looked up.
suppress_warnings = ['ref.python']
napoleon_custom_sections = [('Attributes', 'params_style')]


def show_blocks(app, what, name, obj, options, lines):
    """Makes literal blocks of indented ones that follow an unindented paragraph, such as tables."""
    for i in range(len(lines) - 1, 1, -1):
        before, gap, block = lines[i - 2 : i + 1]
        if before and before[0] != ' ' and not gap and block.startswith('    '):
            lines[i - 1 : i] = ['', '::', '']


def is_foreign(app, what, name, obj, skip, options):
    """Leaves out functions and classes of other projects, and methods of instances."""
    foreign = callable(obj) and not (getattr(obj, '__module__', None) or '').startswith('opql_jax')
    return True if what == 'module' and foreign else None


def write_gin_parameters(app):
    """Writes the page of gin parameters beside those of packages."""
    with mock(autodoc_mock_imports):
        page = gin_parameters.page()
    file = pathlib.Path(app.srcdir) / 'reference' / 'gin_parameters.rst'
    file.write_text(page, encoding='utf-8')


def setup(app):
    """Called by Sphinx.

    `show_blocks` comes before napoleon, which reads sections, and the page after apidoc, which
    clears its folder.
    """
    app.connect('builder-inited', write_gin_parameters, priority=900)
    app.connect('autodoc-process-docstring', show_blocks, priority=400)
    app.connect('autodoc-skip-member', is_foreign)
