"""Whether entities are of the kind that a question asks for, by kind and by their documents."""

import re

import numpy as np
import pyarrow as pa

from opql_jax.corpus import tables
from opql_jax.corpus.concepts import CONCEPT
from opql_jax.corpus.definitions import definition
from opql_jax.corpus.entities import TITLE_KIND, UNKNOWN_KIND
from opql_jax.corpus.spans import VALUES
from opql_jax.data.prepared import Prepared
from opql_jax.kb.text.question_plans import Wanted
from opql_jax.models.mention_kinds import THING
from opql_jax.retrieval.words import words_of

# Kinds returned only when asked for.
_UNASKED = (*sorted(VALUES), 'group', CONCEPT, TITLE_KIND)
# Kinds that a thing may be of.
_THINGS = frozenset({'work', 'language'})
_YEAR = re.compile(r'\d{4}')


def is_year(name: str) -> bool:
    """Whether a name is a year, without day or month."""
    return bool(_YEAR.fullmatch(name))


class AskedFor:
    """The kinds of a text's entities, and what its documents call them."""

    def __init__(self, prepared: Prepared, kinds: np.ndarray, texts: pa.StringArray):
        """Takes the text, the kinds [entities] str, and the passages' texts."""
        self._names, self._kinds, self._texts = prepared.vocab.names, kinds, texts
        titles = tables.numbers(prepared.passages['title_entity'])
        about, first = np.unique(titles, return_index=True)
        self._about = {int(e): int(p) for e, p in zip(about, first) if e >= 0}
        self._definitions: dict[int, frozenset[str]] = {}

    def fits(self, wanted: Wanted, targets) -> np.ndarray:
        """Whether entities are what is asked for: [n] float32, 1 if so, -1 if not, 0 if unknown."""
        kinds = self._kinds[targets]
        if not wanted.kinds:
            fits = np.where(np.isin(kinds, _UNASKED), -1, 0)
        else:
            # Values and concepts are always recognised as such.
            unknown = () if wanted.kinds[0] in (*VALUES, CONCEPT) else (UNKNOWN_KIND,)
            fits = np.where(np.isin(kinds, (*wanted.kinds, *unknown)), 1, -1)
            if wanted.kinds[0] in _THINGS:
                fits[kinds == THING] = 0
        if wanted.is_year:
            years = [is_year(self._names[target]) for target in targets.tolist()]
            fits = np.where((kinds == 'date') & years, 1, np.minimum(fits, 0))
        elif wanted.nouns:
            fits[[bool(wanted.nouns & self._defined_as(target)) for target in targets.tolist()]] = 1
        return fits.astype(np.float32)

    def may_be(self, wanted: Wanted, targets) -> np.ndarray:
        """Whether entities may be what is asked for, as far as their kinds tell: [n] bool."""
        kinds = self._kinds[targets]
        if wanted.kinds and wanted.kinds[0] in (*VALUES, CONCEPT):
            return np.isin(kinds, wanted.kinds)
        return ~np.isin(kinds, [kind for kind in _UNASKED if kind not in wanted.kinds])

    def _defined_as(self, entity: int) -> frozenset[str]:
        """The words by which the document about an entity says what it is."""
        if (words := self._definitions.get(entity)) is None:
            passage = self._about.get(entity)
            text = '' if passage is None else self._texts[passage].as_py()
            said = ' '.join(text[start:end] for start, end in definition(text))
            words = self._definitions[entity] = frozenset(words_of(said))
        return words
