"""Pairs and hidden mentions marked token by token: the reference of `data.markup`."""

from collections import namedtuple

import numpy as np

# Tokens from [CLS] to [SEP], the places of [R1] and [R2], entities, and the first tokens of the
# mentions of other entities, with these.
MarkedPair = namedtuple(
    'MarkedPair', 'tokens r1 r2 topic target context_positions context_entities'
)
MaskedMention = namedtuple('MaskedMention', 'tokens position entity')


def mark_pair(passage, i, j, special, max_context, masked=True):
    """Masks mention `i` as the topic ([ENT] [R1]) and `j` as the target ([ENT] [R2]); not `masked`,
    names stay before their markers. Other mentions stay visible, but for what they share with the
    masked ones; of those of a third entity that are whole `max_context`, evenly spread, are the
    context for L_el: of several with the same first token the longest, which comes first.
    """
    tokens, starts, ends, entities = passage
    row, marks, place_of = [special.cls], {}, {}
    for at in range(len(tokens) + 1):
        # Among empty spans at one place the index decides, as it does in the text.
        for k in sorted((i, j)):
            if at == (starts[k] if masked else ends[k]):
                row += [special.ent] * masked
                marks[k] = len(row)
                row.append(special.r1 if k == i else special.r2)
        is_hidden = masked and any(starts[k] <= at < ends[k] for k in (i, j))
        if at < len(tokens) and not is_hidden:
            place_of[at] = len(row)
            row.append(tokens[at])
    row.append(special.sep)
    context: dict[int, int] = {}
    for start, end, entity in zip(starts, ends, entities):
        places = [place_of.get(at) for at in range(start, end)]
        is_hidden = not places or None in places
        # Nor is one whole with a mark in it, that of a mention without a token.
        is_whole = not is_hidden and places[-1] - places[0] == len(places) - 1
        if is_whole and entity not in (entities[i], entities[j]):
            context.setdefault(places[0], entity)
    spread = [n * len(context) // max_context for n in range(max_context)]
    kept = range(len(context)) if len(context) <= max_context else spread
    array = lambda values: np.array(values, np.int32)
    ends = marks[i], marks[j], int(entities[i]), int(entities[j])
    of_context = (array([list(x)[n] for n in kept]) for x in (context, context.values()))
    return MarkedPair(array(row), *ends, *of_context)


def mask_mention(passage, i, special):
    """Replaces mention `i` by [ENT], for RELIC: its entity is retrieved from the context."""
    (a, b), tokens = (passage.starts[i], passage.ends[i]), passage.tokens.tolist()
    row = [special.cls, *tokens[:a], special.ent, *tokens[b:], special.sep]
    return MaskedMention(np.array(row, np.int32), int(a) + 1, int(passage.entities[i]))
