"""Pages of the synthetic world: from what a page states to text with exact mentions."""

import functools
import random
import re
from collections.abc import Container, Iterable, Sequence

from opql_jax.corpus.documents import Document, Mention
from opql_jax.datasets.synthetic.templates import DISTRACTORS, FILLERS, REFERENCES, SENTENCES

_SLOT = re.compile(r'\{([so])(?:\.(him|his|name))?\}')
_MIN_WORDS = 40
_REPEAT_RATE = 0.15  # share of statements made twice on a page, in two wordings
_NAME_RATE = 0.25  # share of later sentences that call the page's entity by its name


@functools.cache
def _parse(template: str) -> tuple[str | tuple[str, str], ...]:
    """Cuts a template into literals and slots (side, case)."""
    parts, position = [], 0
    for slot in _SLOT.finditer(template):
        parts += [template[position : slot.start()], (slot[1], slot[2] or '')]
        position = slot.end()
    return tuple(part for part in (*parts, template[position:] + '.') if part)


class _Text:
    """A text under construction; knows where the next mention starts."""

    def __init__(self, names: Sequence[str], keys: Sequence[str]):
        self.names, self.keys = names, keys
        self.parts: list[str] = []
        self.length = 0
        self.mentions: list[Mention] = []

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def mention(self, entity: int) -> None:
        self.mentions.append(Mention(self.length, self.length + len(self.names[entity]), self.keys[entity]))
        self.add(self.names[entity])

    def mention_all(self, entities: Sequence[int]) -> None:
        """`A`, `A and B` or `A, B and C`."""
        for i, entity in enumerate(entities):
            if i:
                self.add(' and ' if i == len(entities) - 1 else ', ')
            self.mention(entity)


def _realise(
    text: _Text, template: str, side: str, entity: int, others: list[int], reference: str | None, rng: random.Random
) -> None:
    """Appends one sentence; `reference` is a key of REFERENCES, or None for the name."""
    plural = False
    for i, part in enumerate(_parse(template)):
        if isinstance(part, str):
            text.add(part.replace(' was', ' were', 1) if plural and part.startswith(' was ') else part)
            plural = False
            continue
        slot, case = part
        if slot == side and reference is not None and case != 'name':
            opens = i == 0
            key = 'it' if opens and reference not in ('she', 'he') and rng.random() < 0.4 else reference
            nominative, objective, possessive = rng.choice(REFERENCES[key])
            word = {'': nominative, 'him': objective, 'his': possessive}[case]
            text.add(word[0].upper() + word[1:] if opens else word)
            continue
        named = [entity] if slot == side else others
        text.mention_all(named)
        if case == 'his':
            text.add("'s")
        plural = len(named) > 1


class PageWriter:
    """Writes the page of an entity; a page depends on the seed and its own facts only."""

    def __init__(self, seed: int, names: Sequence[str], keys: Sequence[str], ranges: dict[str, range]):
        """Takes the world's seed, the names and keys of all entities and the ids of each kind."""
        self.seed, self.names, self.keys, self.ranges = seed, names, keys, ranges

    def page(
        self,
        document_id: str,
        entity: int,
        kind: str,
        stated: Iterable[tuple[str, str, list[int]]],
        related: Container[int],
        hidden: Container[tuple[str, str, int]] = frozenset(),
    ) -> Document:
        """The page of `entity`.

        The first sentence names the entity. Later ones may use a pronoun, or not refer to it at all.

        Args:
            document_id: id of the document.
            entity: the page's entity.
            kind: its kind.
            stated: what to state: relation, side of the page's entity ('s' or 'o'), entities of the other side.
            related: entities in any fact with `entity`; no sentence without a fact mentions one.
            hidden: what to leave out of `stated`, but not all of it: relation, side of the page's entity, other entity.
                The other statements and the entities of other sentences are as they would be with nothing hidden.

        Returns:
            The document with all its mentions.
        """
        rng = random.Random(f'{self.seed} page {entity}')
        sentences = self._statements(stated, rng, hidden) + self._distractors(entity, kind, related, rng)
        rng.shuffle(sentences)
        self._open_with_name(sentences)
        # Filled up after the opening sentence, counting names as two words and slots for them as one.
        words = sum(len(template.split()) + len(others) for template, _, others in sentences)
        fillers = list(FILLERS[kind])
        rng.shuffle(fillers)
        while fillers and words < _MIN_WORDS:
            words += len(fillers[-1].split())
            sentences.insert(rng.randint(1, len(sentences)), (fillers.pop(), 's', []))
        gender = rng.choice(('she', 'he'))
        return self._document(document_id, entity, sentences, gender if kind == 'person' else kind, rng)

    def short_page(self, document_id: str, entity: int, stated: Iterable[tuple[str, str, list[int]]]) -> Document:
        """A page of `entity` that says what is stated (see `page`) and nothing else, always by name."""
        rng = random.Random(f'{self.seed} {document_id}')
        sentences = self._statements(stated, rng)
        rng.shuffle(sentences)
        return self._document(document_id, entity, sentences, None, rng)

    def _document(self, document_id: str, entity: int, sentences: list, reference: str | None, rng: random.Random) -> Document:
        """Makes sentences a text; later ones call the page's entity as `reference`, or by name where it is None."""
        text = _Text(self.names, self.keys)
        for i, (template, side, others) in enumerate(sentences):
            if i:
                text.add(' ')
            by_name = reference is None or i == 0 or rng.random() < _NAME_RATE
            _realise(text, template, side, entity, others, None if by_name else reference, rng)
        return Document(document_id, self.names[entity], ''.join(text.parts), tuple(text.mentions), self.keys[entity])

    def _statements(
        self, stated: Iterable, rng: random.Random, hidden: Container[tuple[str, str, int]] = frozenset()
    ) -> list[tuple[str, str, list[int]]]:
        """(template, side of the page's entity, entities of the other side) for all that is stated and not hidden."""
        sentences = []
        for relation, side, others in stated:
            together = len(others) > 1 and rng.random() < 0.6
            for group in [others] if together and len(others) < 5 else [[other] for other in others]:
                group = rng.sample(group, len(group))
                templates = rng.sample(SENTENCES[relation], 2)
                told = [other for other in group if (relation, side, other) not in hidden]
                times = 2 if rng.random() < _REPEAT_RATE else 1
                sentences += [(template, side, told) for template in templates[:times] if told]
        return sentences

    def _distractors(self, entity: int, kind: str, related: Container[int], rng: random.Random) -> list:
        """The same for sentences that state nothing."""
        chosen = rng.sample(DISTRACTORS[kind], rng.choice((0, 0, 1, 1, 2)))
        drawn = [(template, rng.choice(self.ranges[other_kind])) for other_kind, template in chosen]
        return [(template, 's', [other]) for template, other in drawn if other != entity and other not in related]

    @staticmethod
    def _open_with_name(sentences: list) -> None:
        """Moves the first sentence that has a place for the page's entity to the front."""
        opening = next(i for i, (template, side, _) in enumerate(sentences) if f'{{{side}' in template)
        sentences.insert(0, sentences.pop(opening))
