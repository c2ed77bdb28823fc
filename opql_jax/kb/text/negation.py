"""Denials in one form, so that only words need be compared.

'She refused to sign it' becomes 'She did not sign it', and 'in Rust rather than C' 'in Rust except
C'.
"""

import re

# What says that something is not so, that only what stands before it is, and that it was so once.
NOT, EXCEPT, ONCE = 'not', 'except', 'formerly'
_DENIED = r'(?: that)?(?: (?:he|she|it|they|@\d))?(?: (?:had|has|have|was|were|is|are))?(?: ever)?'
_REWRITTEN = tuple(
    (re.compile(pattern, re.IGNORECASE), said)
    for pattern, said in (
        (r"\bcan(?:not|['’]t)\b", f'can {NOT}'),
        (r"\bwon['’]t\b", f'will {NOT}'),
        (r"n['’]t\b", f' {NOT}'),
        (r'\bnot only\b|,? ?\b(?:without (?:an?y? )?doubt|no (?:doubt|wonder))\b,?', ''),
        (r'\bbut also\b', 'and'),
        (r'^neither (.{1,60}?) nor (@\d)', rf'\2 {NOT}'),
        (r'^neither (@\d) nor (?:[A-Z][\w-]* ?)+', rf'\1 {NOT} '),
        (r'\bneither of\b', NOT),
        (r'\bnor\b', 'or'),
        (r'\b(?:no longer|ceased to)\b', ONCE),
        (rf'\b{NOT}\b(?=[^.;]{{0,80}} any ?(?:more|longer)\b)', ONCE),
        (r'\b(?:used to|former(?:ly)?|previously)\b', ONCE),
        (
            r'\b(?:rather than|instead of|as opposed to|except(?: for)?|apart from|unlike)\b',
            EXCEPT,
        ),
        (r'\b(?:nobody|no[ -]one)\b', f'{NOT} anybody'),
        (r'\bnothing\b', f'{NOT} anything'),
        (rf',? (?:but|and) (?:{NOT}|no)\b|, {NOT}\b', f' {EXCEPT}'),
        (r'\b(?:refused|declined|failed|neglected|forgot) to\b', f'did {NOT}'),
        (r'\b(?:refuses?|declines?|fails?) to\b', f'does {NOT}'),
        (r'\b(?:was|were) unable to\b', f'did {NOT}'),
        (r'\b(?:is|are) unable to\b', f'can {NOT}'),
        (rf'\b(?:denie[sd]|deny){_DENIED}\b', f', {NOT}'),
        (r'\black(?:s|ing)?\b', f'does {NOT} have'),
        (r'\blacked\b', f'did {NOT} have'),
        (r'\bwithout\b', f', {NOT}'),
        (r'\bnone of\b', NOT),
        (r'\b(?:never|neither|no(?!\.))\b', NOT),
    )
)


def rewritten(text: str) -> str:
    """A sentence with its denials as `NOT`, `EXCEPT` and `ONCE`."""
    for pattern, said in _REWRITTEN:
        text = pattern.sub(said, text)
    return text
