"""Invented names of the synthetic world: unique, of several words, some outside ASCII.

Put together from syllables and short lists.

No name holds a character that question files use as a mark (`|`, tab, brackets).
"""

import random

from opql_jax.datasets.synthetic.texts import NAMES


def _word(rng: random.Random) -> str:
    """Two or three syllables: Rolan, Bavisto."""
    count = rng.choice((2, 2, 2, 3))
    syllables = [rng.choice(NAMES['onsets']) + rng.choice(NAMES['vowels']) for _ in range(count)]
    return (''.join(syllables) + rng.choice(NAMES['codas'])).capitalize()


def _accented(rng: random.Random) -> str:
    word = _word(rng)
    return word[0] + rng.choice(NAMES['accented']) + word[1:]


def _syllables(script: str, rng: random.Random) -> str:
    return ''.join(rng.choice(NAMES[script]) for _ in range(rng.choice((2, 3))))


def _make_name(kind: str, index: int, rng: random.Random) -> str:
    # A fixed share of the people carries each script, so even a small world holds all of them.
    if kind == 'person':
        if index % 60 == 1:
            return f'{_accented(rng)} {_accented(rng)}'
        if index % 60 == 2:
            return (
                f'{_syllables("cyrillic", rng).capitalize()} '
                f'{_syllables("cyrillic", rng).capitalize()}'
            )
        if index % 60 == 3:
            return f'{rng.choice(NAMES["cjk_family"])} {_syllables("cjk_given", rng)}'
    noun, other = rng.sample(NAMES['nouns'], 2)
    pattern = rng.choice(NAMES['patterns'][kind])
    return pattern.format(
        w=_word(rng), v=_word(rng), a=rng.choice(NAMES['adjectives']), n=noun, m=other
    )


def make_names(kind: str, count: int, rng: random.Random, taken: set[str]) -> list[str]:
    """Names for entities of a kind; no two differ only by case, nor from `taken`, which grows."""
    names = []
    while len(names) < count:
        name = _make_name(kind, len(names), rng)
        if name.casefold() not in taken:
            taken.add(name.casefold())
            names.append(name)
    return names
