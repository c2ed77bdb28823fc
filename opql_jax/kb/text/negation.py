"""Denials in one form, so that only words need be compared.

'She refused to sign it' becomes 'She did not sign it', and 'in Rust rather than C' 'in Rust except
C'.
"""

import re

from opql_jax.kb.text.word_lists import LISTS

# What says that something is not so, that only what stands before it is, and that it was so once.
NOT, EXCEPT, ONCE = 'not', 'except', 'formerly'
_REWRITTEN = tuple((re.compile(pattern, re.IGNORECASE), said) for pattern, said in LISTS['denials'])


def rewritten(text: str) -> str:
    """A sentence with its denials as `NOT`, `EXCEPT` and `ONCE`."""
    for pattern, said in _REWRITTEN:
        text = pattern.sub(said, text)
    return text
