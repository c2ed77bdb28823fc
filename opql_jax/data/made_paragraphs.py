"""Made paragraphs that teach a reader of whom and of what a sentence says something.

A paragraph has blocks about persons, things and organisations; `made_paragraphs.toml` has what is
said of these, and asked. What is asked of one and said only of another has no answer.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from opql_jax.core.checkout import load_toml
from opql_jax.core.errors import InputError
from opql_jax.corpus.words import word_list
from opql_jax.data.reading import titled
from opql_jax.data.reading_examples import DOES_NOT, HELPS, NO, YES, ReadingExample

# {slot: that of the second one in a pair}.
_SECOND = {'P': 'Q', 'L': 'M', 'Y': 'Z', 'D': 'E', 'N': 'K', 'W': 'V'}
_SECOND |= {slot: f'{slot}2' for slot in 'XOSRIT'}
_MONTHS = (
    'January February March April May June July August September October November December'.split()
)
_DATES = ('{0} {1}', '{1} {0}', '{0} {1} {2}', '{1} {0}, {2}')
_TITLES = ('Minutes', 'Notes', 'Annual report', 'Newsletter', 'Letter', 'Log')
_SLOT = re.compile(r'\{(\w+)\}')
_DENIES = re.compile(r'\b(?:not|never|no longer|nothing)\b')
# Shares: of sentences that leave open what they mention, of two in one sentence, of paragraphs read
# as two passages, of persons with the surname of another, of roles such as 'deputy treasurer'.
_OPEN, _PAIRS, _APART, _RELATED, _LESSER = 0.25, 0.25, 0.3, 0.15, 0.3
# Of questions: with an answer, and by yes or no.
_ANSWERED, _DECIDED = 0.65, 0.12
# Of questions without a mark; and how many are asked of each paragraph.
_UNMARKED, _ASKED_OF_EACH = 0.15, 3


class _Statement(NamedTuple):
    """What a sentence says."""

    frame: Mapping[str, Any]
    slots: Mapping[str, str]  # what fills them
    sentence: int
    is_open: bool  # mentioned, and left unanswered

    def has(self, frame: Mapping, slots: Mapping[str, str]) -> bool:
        """Whether it says something of the same."""
        same = all(self.slots.get(slot) == filler for slot, filler in slots.items())
        return self.frame is frame and same


def paragraphs(
    surnames: Sequence[str], places: Sequence[str], rng: np.random.Generator, count: int
) -> Iterator[ReadingExample]:
    """Yields `count` questions about made paragraphs, some of each."""
    if not (surnames and places):
        raise InputError('paragraphs are made of surnames and places: found none of one of these')
    while count > 0:
        paragraph = _Paragraph(surnames, places, rng)
        for example in filter(None, (paragraph.question() for _ in range(_ASKED_OF_EACH))):
            if count > 0:
                yield example
            count -= 1


class _Paragraph:
    """Sentences with what they say, drawn at random."""

    def __init__(self, surnames: Sequence[str], places: Sequence[str], rng: np.random.Generator):
        self._rng, self._surnames, self._places = rng, surnames, places
        self._used: set[str] = set()
        self._is_man: dict[str, bool] = {}  # {person: whether a man}
        self._sentences: list[str] = []
        self._stated: list[_Statement] = []
        keys = self._some('PXO', int(rng.integers(2, 5)))
        for key in sorted(set(keys)):
            of_key = [frame for frame in _frames()['frames'] if frame['key'] == key]
            shared = rng.permutation(len(of_key))[: int(rng.integers(1, 4))]
            for _ in range(keys.count(key)):
                own = [i for i in (*shared, rng.integers(len(of_key))) if rng.random() < 0.7]
                self._say_of(key, [of_key[i] for i in dict.fromkeys(own or shared[:1])])
        cut = len(self._sentences)
        if rng.random() < _APART:
            cut = int(rng.integers(1, cut + 1))
        parts = range(cut), range(cut, len(self._sentences))
        self._passages = [(self._title(), part) for part in parts if part]

    # ---------------- Drawing ----------------

    def _one(self, items):
        return items[int(self._rng.integers(len(items)))]

    def _some(self, items, count: int) -> list:
        return [items[i] for i in self._rng.integers(len(items), size=count)]

    def _title(self) -> str:
        kind = self._rng.random()
        if kind < 0.4:
            return ''
        if kind < 0.6:
            return self._one(_TITLES)
        named = [each.slots[slot] for each in self._stated for slot in 'POX' if slot in each.slots]
        return self._one(named).removeprefix('the ')

    def _filler(self, slot: str, is_man: bool | None = None) -> str:
        """What is not in the paragraph yet."""
        for _ in range(100):
            filler = self._draw(slot[0], is_man)
            if not any(filler in used or used in filler for used in self._used):
                break
        self._used.add(filler)
        if slot in 'PQ':
            self._is_man[filler] = filler.split()[0].lower() in word_list('names_of_men')
        if slot[0] == 'R' and self._rng.random() < _LESSER:
            return self._one(_frames()['fillers']['lesser']).format(R=filler)
        return filler

    def _draw(self, slot: str, is_man: bool | None) -> str:
        integers = self._rng.integers
        if slot in 'PQ':
            of_men = self._rng.random() < 0.5 if is_man is None else is_man
            related = self._is_man and self._rng.random() < _RELATED
            surname = self._one([*self._is_man]).split()[-1] if related else ''
            first = self._one(_first_names(of_men)).capitalize()
            return f'{first} {surname or self._one(self._surnames)}'
        if slot in 'LM':
            return self._one(self._places)
        if slot in 'YZ':
            return str(integers(1860, 2025))
        if slot in 'DE':
            day, year = integers(1, 29), integers(1900, 2025)
            return self._one(_DATES).format(day, self._one(_MONTHS), year)
        if slot in 'NK':
            return f'{self._one("€£$")}{integers(20, 9999):,}'
        if slot in 'WV':
            return f'{integers(2, 90)} tonnes'
        return self._one(_frames()['fillers'][slot]).format(L=self._one(self._places))

    def _kin(self) -> str:
        return self._one(self._one(_frames()['fillers']['kin']))

    # ---------------- Sentences ----------------

    def _say_of(self, key: str, frames: Sequence[Mapping]) -> None:
        """A few sentences about one person, thing or organisation."""
        about = self._filler(key)
        for number, frame in enumerate(frames):
            known, kind = {key: about}, self._rng.random()
            if kind < _OPEN:
                said = self._say(frame, self._one(frame['unsays']), known, number > 0, is_open=True)
                if self._rng.random() < 0.5:
                    continue
                # Who is treasurer now, after who was.
                known |= {slot: said[slot] for slot in ('R', 'F') if slot in said}
            if kind > 1 - _PAIRS and frame['pairs']:
                self._say(frame, self._one(frame['pairs']), known, again=False)
            else:
                self._say(frame, self._one(frame['says']), known, number > 0)

    def _say(
        self, frame: Mapping, pattern: str, known: Mapping[str, str], again: bool, is_open=False
    ) -> dict[str, str]:
        """Adds a sentence; returns what fills its slots."""
        slots = dict(known)
        for slot in sorted(set(_SLOT.findall(pattern)) - {'he', 'his'}):
            if slot == 'F' and slot not in slots:
                slots['F'] = self._kin()
            elif slot == 'lesser':
                role = slots.setdefault('R', self._draw('R', None))
                slots['lesser'] = self._one(_frames()['fillers']['lesser']).format(R=role)
            elif slot not in slots:
                of_men = slots.get('F') in _frames()['fillers']['kin'][1] if 'F' in slots else None
                slots[slot] = self._filler(slot, of_men if slot == 'Q' else None)
        mine = {slot: slots[slot] for slot in slots.keys() - {'lesser'}}
        number, parts = len(self._sentences), [mine]
        if pattern in frame['pairs']:
            seconds = set(_SECOND.values())
            other = {slot: slots[of] for slot, of in _SECOND.items() if of in slots}
            if frame['key'] not in other and _SECOND.get(frame['key']) not in slots:
                other |= known
            parts = [{s: filler for s, filler in mine.items() if s not in seconds}, other]
        self._stated += [_Statement(frame, part, number, is_open) for part in parts]
        self._sentences.append(self._in_words(pattern, slots, again and 'P' in known))
        return mine

    def _in_words(self, pattern: str, slots: Mapping[str, str], again: bool) -> str:
        """The sentence; who was named before may be 'he', or be called by the surname."""
        person = slots.get('P', '')
        he, his = ('he', 'his') if self._is_man.get(person, True) else ('she', 'her')
        names = {**slots, 'he': he, 'his': his}
        if again and self._rng.random() < 0.75:
            surname = person.split()[-1]
            is_only = sum(name.split()[-1] == surname for name in self._is_man) == 1
            if pattern.startswith("{P}'s"):
                pattern = pattern.replace("{P}'s", his, 1)
            elif re.match(r'\{P\} \w', pattern) and not pattern.startswith('{P} and'):
                names['P'] = surname if is_only and self._rng.random() < 0.4 else he
        sentence = _SLOT.sub(lambda slot: names[slot[1]], pattern)
        return sentence[0].upper() + sentence[1:]

    # ---------------- Questions ----------------

    def question(self) -> ReadingExample | None:
        """A question about the paragraph, with an answer or without; None if none was found."""
        for _ in range(100):
            each, kind = self._one(self._stated), self._rng.random()
            if kind < _DECIDED:
                found = self._decided(each)
            elif kind < _ANSWERED:
                found = self._asked(each)
            else:
                found = self._unstated(each)
            if found is not None:
                return found
        return None

    def _asked(self, each: _Statement) -> ReadingExample | None:
        pattern, answers = self._one(each.frame['asks'])
        asked = _asked_about(pattern, each.slots)
        answer = next((slot for slot in answers if slot in each.slots), None)
        if asked is None or answer is None or each.is_open:
            return None
        said = [other for other in self._stated if other.has(each.frame, asked)]
        if len({other.slots.get(answer) for other in said if not other.is_open}) > 1:
            return None
        found = self._example(pattern, asked, each.slots[answer], each.sentence)
        return found if found.answers else None  # 'she' may be named in the other passage

    def _unstated(self, each: _Statement) -> ReadingExample | None:
        """A question about what a sentence names, which none answers."""
        key = self._one([slot for slot in 'PXO' if slot in each.slots])
        of_key = [frame for frame in _frames()['frames'] if frame['key'] == key]
        same = self._rng.random() < 0.5
        frame, slots = each.frame, dict(each.slots)
        if not same:
            frame, slots = self._one(of_key), {key: each.slots[key]}
            slots |= {'R': self._draw('R', None), 'F': self._kin()}
        pattern, answers = self._one(frame['asks'])
        asked = _asked_about(pattern, slots)
        if not asked or not asked.keys() & set('PXO'):
            return None
        if same and 'Y' in asked and self._rng.random() < 0.5:
            asked['Y'] = self._filler('Y')  # of another year
        said = [other for other in self._stated if other.has(frame, asked) and not other.is_open]
        if any(slot in other.slots for other in said for slot in answers):
            return None
        return self._example(pattern, asked)

    def _decided(self, each: _Statement) -> ReadingExample | None:
        """A question by yes or no; a sentence may say it, deny it, or say it of another."""
        if 'is' not in each.frame:
            return None
        pattern, decides = self._one(each.frame['is'])
        slots, verdict = dict(each.slots), YES
        others = [
            other.slots[decides]
            for other in self._stated
            if decides in other.slots and other.slots[decides] != each.slots.get(decides)
        ]
        if each.is_open:
            verdict = NO if _DENIES.search(self._sentences[each.sentence]) else ''
        elif self._rng.random() < 0.5 and others and decides in slots:
            slots[decides], verdict = self._one(others), NO
        asked = _asked_about(pattern, slots)
        if asked is None:
            return None
        rest = {slot: filler for slot, filler in asked.items() if slot != decides}
        if sum(other.has(each.frame, rest) for other in self._stated) > 1:
            return None
        return self._example(pattern, asked, '', each.sentence if verdict else None, verdict)

    def _example(
        self,
        pattern: str,
        asked: Mapping[str, str],
        answer: str = '',
        sentence: int | None = None,
        verdict: str = '',
    ) -> ReadingExample:
        """A question about the paragraph, which one `sentence` answers, or none."""
        question = _SLOT.sub(lambda slot: asked[slot[1]], pattern)
        question = question[0].upper() + question[1:]
        if self._rng.random() < _UNMARKED:
            question = question.rstrip('?')
        texts, places = [], []
        for title, part in self._passages:
            text = titled(title, '')
            begin = len(text)
            for number in part:
                if number == sentence and answer:
                    found = _places_of(answer, self._sentences[number], text, begin)
                    places += [(len(texts), *place) for place in found]
                text += self._sentences[number] + ' '
            texts.append(text.rstrip())
        helps = bool(places or verdict)
        supports = [HELPS if helps and sentence in part else DOES_NOT for _, part in self._passages]
        return ReadingExample(
            'paragraphs', question, tuple(texts), tuple(places), tuple(supports), verdict
        )


def _places_of(answer: str, sentence: str, before: str, begin: int) -> list[tuple[int, int]]:
    """Where an answer stands in a sentence, or, said of 'her' there, last `before`."""
    words = re.escape(answer.removeprefix('the '))
    pattern, at = re.compile(rf'(?<!\w){words}(?!\w)', re.IGNORECASE), len(before)
    found = [(each.start() + at, each.end() + at) for each in pattern.finditer(sentence)]
    return found or [each.span() for each in pattern.finditer(before, begin)][-1:]


def _asked_about(pattern: str, slots: Mapping[str, str]) -> dict[str, str] | None:
    """What fills the slots of a question; None if something is lacking."""
    needed = _SLOT.findall(pattern)
    return {slot: slots[slot] for slot in needed} if set(needed) <= slots.keys() else None


@functools.cache
def _first_names(of_men: bool) -> list[str]:
    """Those of men, or of women, in order."""
    return sorted(word_list('names_of_men' if of_men else 'names_of_women'))


@functools.cache
def _frames() -> dict[str, Any]:
    return load_toml('datasets/made_paragraphs.toml')
