"""Invented names of the synthetic world: unique, of several words, some outside ASCII.

Names are put together from syllables and from short word lists, so that any number of them can be
made. No name holds a character that the question files use as a mark (`|`, tab, brackets).
"""

import random

_ONSETS = ('b', 'c', 'd', 'dr', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'r', 's', 'st', 't', 'tr', 'v', 'z')
_VOWELS = ('a', 'e', 'i', 'o', 'u')
_CODAS = ('', '', 'l', 'm', 'n', 'r', 's')
_ACCENTED = ('é', 'ø', 'ñ', 'ü', 'å', 'ç', 'š', 'ő')
_CYRILLIC = ('ба', 'во', 'ги', 'до', 'жа', 'зи', 'ка', 'ло', 'ми', 'но', 'ра', 'со', 'ту', 'ша', 'ян')
_CJK_FAMILY = '林陳周葉江石方白高沈佐森原青岡'
_CJK_GIVEN = '河雲松雪明春竹月川光海星秋文山花石風葉和'

_ADJECTIVES = (
    'Amber',
    'Ashen',
    'Bitter',
    'Borrowed',
    'Brass',
    'Broken',
    'Burning',
    'Copper',
    'Crooked',
    'Crystal',
    'Distant',
    'Drowned',
    'Electric',
    'Endless',
    'Faded',
    'Fallen',
    'Feathered',
    'Frozen',
    'Gilded',
    'Hidden',
    'Hollow',
    'Iron',
    'Ivory',
    'Last',
    'Lonely',
    'Lost',
    'Marble',
    'Midnight',
    'Narrow',
    'Nameless',
    'Paper',
    'Patient',
    'Quiet',
    'Restless',
    'Salted',
    'Scarlet',
    'Secret',
    'Silver',
    'Sleeping',
    'Stolen',
    'Tangled',
    'Tender',
    'Thirsty',
    'Unwritten',
    'Velvet',
    'Wandering',
    'Weary',
    'Wild',
    'Winter',
    'Wooden',
)
_NOUNS = (
    'Anchor',
    'Archive',
    'Balcony',
    'Beacon',
    'Bell',
    'Bridge',
    'Cartographer',
    'Cathedral',
    'Clock',
    'Comet',
    'Compass',
    'Courier',
    'Crossing',
    'Crown',
    'Desert',
    'Dream',
    'Echo',
    'Engine',
    'Ferry',
    'Fever',
    'Forest',
    'Garden',
    'Gate',
    'Glacier',
    'Harbour',
    'Harvest',
    'Horizon',
    'Inheritance',
    'Island',
    'Juggler',
    'Labyrinth',
    'Ladder',
    'Lantern',
    'Letter',
    'Lighthouse',
    'Locket',
    'Magician',
    'Meadow',
    'Mirror',
    'Monsoon',
    'Mountain',
    'Ocean',
    'Orchard',
    'Orphan',
    'Parade',
    'Pilgrim',
    'Promise',
    'Railway',
    'Raven',
    'River',
    'Sailor',
    'Season',
    'Shadow',
    'Signal',
    'Sparrow',
    'Staircase',
    'Storm',
    'Stranger',
    'Summer',
    'Tower',
    'Treasure',
    'Umbrella',
    'Verdict',
    'Violin',
    'Voyage',
    'Wedding',
    'Whisper',
    'Window',
)

# {w}: an invented word, {v}: another one, {a}: an adjective, {n} and {m}: nouns.
_PATTERNS = {
    'film': (
        'The {a} {n}',
        '{a} {n}',
        'The {n} of {w}',
        '{n} against {m}',
        '{a} {n} of {w}',
        'Beyond the {a} {n}',
        'Goodbye {w} {n}',
        'The {n} in {w}',
    ),
    'book': (
        'Letters from {w}',
        'The {n} or the {m}',
        'The {a} {n} of {w}',
        'Under the {a} {n}',
        'A Year in {w}',
        'The {w} {n}',
        'Notes on the {a} {n}',
    ),
    'person': ('{w} {v}', '{w} {v}', '{w} {v}', '{w} {v}', '{w} de {v}'),
    'company': ('{w} Pictures', '{w} Works', '{w} Partners', 'Studio {w}', '{w} {v} Group', '{w} Brothers', '{n} {w}'),
    'city': ('Port {w}', 'New {w}', '{w} Bay', '{w} Falls', 'Old {w}', '{w} on {v}'),
    'country': ('United {w}', 'Upper {w}', 'Lower {w}', 'Greater {w}', '{w} Islands'),
    'university': ('University of {w}', '{w} College', '{w} Institute', '{w} {v} University'),
}


def _word(rng: random.Random) -> str:
    """Two or three syllables: Rolan, Bavisto."""
    count = rng.choice((2, 2, 2, 3))
    return (''.join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(count)) + rng.choice(_CODAS)).capitalize()


def _accented(rng: random.Random) -> str:
    word = _word(rng)
    return word[0] + rng.choice(_ACCENTED) + word[1:]


def _cyrillic(rng: random.Random) -> str:
    return ''.join(rng.choice(_CYRILLIC) for _ in range(rng.choice((2, 3)))).capitalize()


def _cjk(rng: random.Random) -> str:
    return f'{rng.choice(_CJK_FAMILY)} {"".join(rng.choice(_CJK_GIVEN) for _ in range(rng.choice((2, 3))))}'


def _one(kind: str, index: int, rng: random.Random) -> str:
    # A fixed share of the people carries each script, so even a small world holds all of them.
    if kind == 'person':
        if index % 60 == 1:
            return f'{_accented(rng)} {_accented(rng)}'
        if index % 60 == 2:
            return f'{_cyrillic(rng)} {_cyrillic(rng)}'
        if index % 60 == 3:
            return _cjk(rng)
    noun, other = rng.sample(_NOUNS, 2)
    return rng.choice(_PATTERNS[kind]).format(w=_word(rng), v=_word(rng), a=rng.choice(_ADJECTIVES), n=noun, m=other)


def make_names(kind: str, count: int, rng: random.Random, taken: set[str]) -> list[str]:
    """`count` names for entities of `kind`, none of which differs from another, or from `taken`, only by case.

    Args:
        kind: a kind of entity, a key of the patterns above.
        count: how many names.
        rng: source of randomness; the names are a function of its state.
        taken: case-folded names already in use; the new ones are added to it.

    Returns:
        The names, in order.
    """
    names = []
    while len(names) < count:
        name = _one(kind, len(names), rng)
        if name.casefold() not in taken:
            taken.add(name.casefold())
            names.append(name)
    return names
