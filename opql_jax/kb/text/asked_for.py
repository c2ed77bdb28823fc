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
from opql_jax.kb.text import values
from opql_jax.kb.text.wanted import Wanted
from opql_jax.kb.text.word_lists import stems
from opql_jax.models.mention_kinds import THING

# Kinds returned only when asked for.
_UNASKED = (*sorted(VALUES), 'group', CONCEPT, TITLE_KIND)
# Kinds that a thing may be of.
_THINGS = frozenset({'work', 'language'})
_YEAR = re.compile(r'\d{4}')
_LETTER = re.compile(r'[^\W\d_]')
# Words of amounts without numbers.
_AMOUNT = re.compile(
    r'\b(?:half|third|quarter|several|few|many|most|none|no|all|double|twice|dozens?|hundreds?'
    r'|thousands?|millions?|billions?)\b',
    re.IGNORECASE,
)
# Countries that are cities, rivers or the like, too.
_BOTH = frozenset(
    'Singapore Monaco Luxembourg Kuwait Panama Guatemala Djibouti Jordan Georgia'.split()
)


def is_year(name: str) -> bool:
    """Whether a name is a year, without day or month."""
    return bool(_YEAR.fullmatch(name))


def _of_measure(wanted: Wanted, text: str) -> float:
    """Whether a number is of the measure that is asked for, as in `AskedFor.fits`."""
    found = values.number(text)
    if not wanted.measures:
        return 1.0
    if found is None:
        return 0.0
    return 1.0 if found[1] in wanted.measures else -1.0 if found[1] else 0.0


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
            fits = np.where(years, 1, np.minimum(fits, 0))
        elif wanted.nouns:
            defined = [self._defined_as(target) for target in targets.tolist()]
            if wanted.is_what:  # what is said to be something else may be that, too
                fits = np.where(list(map(bool, defined)), np.minimum(fits, 0), fits)
            fits[[not wanted.nouns.isdisjoint(words) for words in defined]] = 1
        if 'person' in wanted.kinds[:1]:
            names = map(self._names.__getitem__, targets.tolist())
            fits[[name[:1].isdigit() and not _LETTER.search(name) for name in names]] = -1
        if wanted.measures:
            for place in np.flatnonzero(kinds == 'quantity').tolist():
                fits[place] = _of_measure(wanted, self._names[targets[place]])
        if wanted.is_country is not None:
            for place in np.flatnonzero(fits > 0).tolist():
                name = self._names[targets[place]]
                if (values.country(name) is None) == wanted.is_country and name not in _BOTH:
                    fits[place] = 0 if wanted.is_country else -1
        return fits.astype(np.float32)

    def text_fits(self, wanted: Wanted, text: str) -> float:
        """Whether words that name no entity are what is asked for, as in `fits`."""
        if wanted.is_year and is_year(text):
            return 1.0
        if wanted.kinds == ('date',):
            return float(values.date(text) is not None)
        if wanted.kinds[:1] == ('quantity',):
            is_number = values.number(text) is not None
            return _of_measure(wanted, text) if is_number else 0.0 if _AMOUNT.search(text) else -1.0
        return 0.0 if not wanted.kinds or _LETTER.search(text) else -1.0

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
            words = self._definitions[entity] = stems(said)
        return words
