"""A memory of a small world to which text is added."""

import opql_jax
from opql_jax.kb.update_memory import inject


def open_kb(world, memory, text='extended'):
    return opql_jax.open(world, text=text, memory=memory)


def add(world, memory, text='extended', **options):
    inject(str(world / text), str(world / 'align'), str(memory), **options)


def facts(kb, name):
    """{target: sentence} that one hop from an entity leads to."""
    (hop,) = kb.ask(f'who directed [{name}]').hops
    return {fact['target']: fact['sentence'] for fact in kb.evidence(hop.entries)}
