"""Names inside of names: 'Daewoo Heavy Industries' speaks of Daewoo."""

import collections
import re
from collections.abc import Sequence

from opql_jax.corpus.name_resolution import fold

# Entities of one spelling that it may mean.
_MOST = 3


def inner_names(names: Sequence[str]) -> list[tuple[int, ...]]:
    """For each name the places of the names that are some of its words, rising.

    An inner name begins with a capital in both, and has a letter. Words count as
    `name_resolution.fold` leaves them.
    """
    spelt = collections.defaultdict(list)
    for entity, name in enumerate(names):
        if name[:1].isupper() and len(folded := fold(name)) > 1:
            spelt[folded].append(entity)
    longest = max((spelling.count(' ') + 1 for spelling in spelt), default=0)
    found = []
    for entity, name in enumerate(names):
        words = [word for word in re.split(r'[\s,;:()/–-]+', name) if word]
        inner: set[int] = set()
        for first, word in enumerate(words):
            for end in range(first + 1, min(len(words), first + longest) + 1):
                if word[0].isupper() and end - first < len(words):
                    inner.update(spelt.get(fold(' '.join(words[first:end])), ())[:_MOST])
        found.append(tuple(sorted(inner - {entity})))
    return found
