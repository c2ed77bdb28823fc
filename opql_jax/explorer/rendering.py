"""How pages are made: the templates that they are filled into, and the files that they load."""

import pathlib

import jinja2

STATIC = pathlib.Path(__file__).parent / 'static'


def make_templates() -> jinja2.Environment:
    """The templates of all pages; what is filled in is escaped."""
    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent / 'templates')
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
