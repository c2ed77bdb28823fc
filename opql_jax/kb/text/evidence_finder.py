"""The passages that retrieval and following find, and what the reader reads in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

import numpy as np

from opql_jax.corpus.layout import is_item_number
from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.questions import Question
from opql_jax.corpus.splitting import text_start
from opql_jax.data.prepared import Prepared
from opql_jax.data.reading import STAND_IN, TITLE_END, answer_start, titled
from opql_jax.kb.answers import Answer
from opql_jax.kb.text.candidates import Evidence
from opql_jax.kb.text.life_spans import with_life_span
from opql_jax.kb.text.retrieve import Retriever
from opql_jax.models.reader import Reader, Reading, Span, mean
from opql_jax.retrieval.rank import Ranked

# Passages read for a question, and how many of these may be passages behind the best followed
# answers that retrieval did not find.
PASSAGES, _FOLLOWED, _ANSWERS = 5, 2, 3
# Characters that are cut from both ends of an answer.
_MARKS = ' \t\n.,;:!?"“”\'‘’()[]{}«»*_|'
# What a measure is of, cut from its end: '214 metres long' is 214 metres.
_DIMENSION = re.compile(r'(?<=[a-z²³.]) (?:deep|high|long|old|tall|thick|wide)$')
# An answer is widened to whole words and numbers, and to what a hyphen joins to its beginning, as
# in 'folk-rock'; what a hyphen joins to its end is often something else, as in 'Dutch-born'.
_WORD = re.compile(r'((?:[a-z]+-)*)(\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?:\s?[%°]\w*|\w*)|\w+)')
# Characters around a span that are searched for the words at its ends.
_AROUND = 50
# Share of the longer one by which a span and a mention overlap if they are the same.
_SAME = 0.8


class EvidenceFinder:
    """Retrieval over a knowledge base of plain text, and a reader of what it finds."""

    def __init__(
        self, prepared: Prepared, kinds: Sequence[str], retriever: Retriever, reader: Reader
    ):
        """Takes the text, the kinds of its entities, the retriever, and the reader."""
        self._prepared, self._kinds = prepared, kinds
        self._retriever, self._reader = retriever, reader

    def find(
        self,
        questions: Sequence[Question],
        followed: Sequence[Answer],
        of_one: Collection[int] = (),
    ) -> list[Evidence]:
        """The best passages for each question, and what the reader reads in them.

        What one passage answers is read best without the others, what takes several only with them.

        Args:
            questions: what is asked.
            followed: what following relations found for each.
            of_one: the places of questions of one relation: the first passage of each is read
                alone, too, and the mean of both readings counts.
        """
        asked, index = [question.text for question in questions], self._retriever.index
        found = list(map(self._chosen, self._retriever.rank(asked, PASSAGES), followed))
        text_of = lambda number: titled(index.titles[number], index.texts[number])
        texts = [list(map(text_of, of)) for of in found]
        alone = [i for i in of_one if len(texts[i]) > 1]
        first = [texts[i][:1] for i in alone]
        readings = self._reader.read([*asked, *(asked[i] for i in alone)], [*texts, *first])
        for i, of_first in zip(alone, readings[len(asked) :]):
            readings[i] = mean(readings[i], of_first)
        return list(map(self._evidence, found, map(with_life_span, asked, texts, readings)))

    def _chosen(self, ranked: Sequence[Ranked], followed: Answer) -> dict[int, int]:
        """The passages that retrieval ranks, the last replaced by what only following found.

        With each comes the passage from which it was reached, or -1.
        """
        previous = lambda each: -1 if each.reason.previous is None else each.reason.previous
        found = {each.passage: previous(each) for each in ranked}
        others: dict[int, int] = {}
        for entity in followed.entities[:_ANSWERS].tolist():
            path = itertools.chain(*followed.paths(entity, 1))
            passages = [fact.passage for fact in path if fact.passage is not None]
            for before, passage in itertools.pairwise([-1, *passages]):
                if passage not in found:
                    others.setdefault(passage, before)
        added = list(others.items())[:_FOLLOWED]
        return dict([*list(found.items())[: PASSAGES - len(added)], *added])

    def _evidence(self, found: dict[int, int], reading: Reading) -> Evidence:
        numbers, before = list(found), np.array(list(found.values()), np.int64)
        places = (self._placed(numbers[span.passage], span) for span in reading.spans)
        placed = [place for place in places if place]
        spans, said, entities = zip(*placed) if placed else ((), (), ())
        # The entities that a passage names, in its text or by its title.
        index, named = self._retriever.index, []
        for number in numbers:
            sentences = index.entities_of_sentence[slice(*index.first_sentence[number:][:2])]
            named.append(np.union1d(sentences.indices, index.title_entity[number : number + 1]))
        return Evidence(numbers, before, named, reading._replace(spans=list(spans)), said, entities)

    def _placed(self, number: int, span: Span) -> tuple[Span, str, int] | None:
        """A span without punctuation around it: its characters, its text, its entity or -1.

        None if nothing is left, or a word that stands for something, or the number of an item, or
        it begins in the title and ends in the text, or in one sentence and ends in another.
        """
        index = self._retriever.index
        title, text = index.titles[number], index.texts[number]
        whole, cut = titled(title, text), len(title) + len(TITLE_END) if title else 0
        start, end = span.start, span.end
        while start < end and whole[start] in f'{_MARKS}#':  # which 'C#' ends with
            start += 1
        while start < end and whole[end - 1] in _MARKS:
            end -= 1
        start, end = whole_words(whole, start, end)
        start = answer_start(whole, start, end)
        said = whole[start:end]
        if said.count('(') > said.count(')') and whole[end : end + 1] == ')':
            end += 1
        if whole[start:end][:1].isdigit() and (of := _DIMENSION.search(whole, start, end)):
            end = of.start()
        if start >= end or start < cut < end:
            return None
        if start >= cut and is_item_number(text, start - cut, end - cut):
            return None
        row = self._prepared.passage(number)
        shift = text_start(row) - cut
        if any(start + shift < begin < end + shift for begin in row['sentence_starts']):
            return None
        entity = _entity(row, start - cut, end - cut, self._kinds)
        if entity < 0 and STAND_IN.fullmatch(whole, start, end):
            return None
        return span._replace(start=start - cut, end=end - cut), whole[start:end], entity


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """A span widened to whole words and numbers."""
    for word in _WORD.finditer(text, max(0, start - _AROUND), end + _AROUND):
        if word.start() < start < word.end():
            start = word.start()
        if word.start(2) < end < word.end():
            end = word.end()
    return start, end


def _entity(row: dict, start: int, end: int, kinds: Sequence[str]) -> int:
    """The entity that a span of a passage names, -1 if none; below 0 characters are of the title.

    A part of a person's name is the person.
    """
    if end <= 0:
        return int(row['title_entity'])
    cut = text_start(row)
    start, end = start + cut, end + cut
    for mention in row['mentions']:
        first, last, entity = mention['start'], mention['end'], int(mention['entity'])
        shared = min(end, last) - max(start, first)
        spellings = row['text'][start:end], row['text'][first:last]
        is_part = kinds[entity] == 'person' and first <= start and end <= last
        is_most = shared >= _SAME * max(map(len, spellings))
        if shared > 0 and (is_part or is_most or len(set(map(fold, spellings))) == 1):
            return entity
    return -1
