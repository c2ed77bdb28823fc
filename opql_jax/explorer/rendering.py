"""The templates of all pages, and the folder of the files that they load."""

import pathlib

import jinja2

STATIC = pathlib.Path(__file__).parent / 'static'


def make_templates() -> jinja2.Environment:
    """The templates of all pages; they escape the values filled in."""
    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent / 'templates')
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
