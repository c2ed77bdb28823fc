"""The synthetic text: an entity's page states facts about it, among other sentences.

Pages carry exact mentions of entities. A page depends on the seed and on its own facts only, so
pages are written one by one.
"""

import random
import string
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from opql_jax.corpus.documents import Document, Mention
from opql_jax.datasets.synthetic.world import PAGES, RELATIONS, World

_MIN_WORDS = 40
_REPEAT_RATE = 0.15  # share of statements made twice on a page, in two wordings
_NAME_RATE = 0.25  # share of later sentences that call the page's entity by its name
# Share of references at the start of a sentence that are 'It', if it is not a person's page.
_IT_RATE = 0.4


class _Sentence(NamedTuple):
    """A template, the side ('s' or 'o') of the page's entity, and the other side's entities."""

    template: str
    side: str
    others: list[int]


def documents(world: World) -> Iterator[Document]:
    """The page of every entity that has one, in `page_order`."""
    return (page(world, f'page-{number}', entity) for number, entity in enumerate(world.page_order))


def page(
    world: World,
    document_id: str,
    entity: int,
    hidden: Container[tuple[str, str, int]] = frozenset(),
) -> Document:
    """The page of `entity`, named first, without facts `hidden`: (relation, its side, other)."""
    kind, rng = world.kind(entity), random.Random(f'{world.seed} page {entity}')
    sentences = _statements(world, entity, rng, hidden) + _distractors(world, entity, kind, rng)
    rng.shuffle(sentences)
    opening = next(i for i, s in enumerate(sentences) if f'{{{s.side}' in s.template)
    sentences.insert(0, sentences.pop(opening))
    # Filled up after the opening sentence, counting names as two words and slots for them as one.
    words = sum(len(sentence.template.split()) + len(sentence.others) for sentence in sentences)
    fillers = list(PAGES['fillers'][kind])
    rng.shuffle(fillers)
    while fillers and words < _MIN_WORDS:
        words += len(fillers[-1].split())
        sentences.insert(rng.randint(1, len(sentences)), _Sentence(fillers.pop(), 's', []))
    gender = rng.choice(('she', 'he'))
    reference = gender if kind == 'person' else kind
    return _document(world, document_id, entity, sentences, reference, rng)


def short_page(world: World, document_id: str, entity: int) -> Document:
    """A page of `entity` that states its facts and says nothing else, always by name."""
    rng = random.Random(f'{world.seed} {document_id}')
    sentences = _statements(world, entity, rng)
    rng.shuffle(sentences)
    return _document(world, document_id, entity, sentences, None, rng)


def _statements(
    world: World, entity: int, rng: random.Random, hidden: Container = frozenset()
) -> list[_Sentence]:
    """Sentences for all facts of a page that are not hidden."""
    sentences = []
    for relation, side, others in world.facts_about(entity, on_page=True):
        together = len(others) > 1 and rng.random() < 0.6
        for group in [others] if together and len(others) < 5 else [[other] for other in others]:
            group = rng.sample(group, len(group))
            templates = rng.sample(RELATIONS[relation].sentences, 2)
            visible = [other for other in group if (relation, side, other) not in hidden]
            times = 2 if rng.random() < _REPEAT_RATE else 1
            if visible:
                sentences += [_Sentence(each, side, visible) for each in templates[:times]]
    return sentences


def _distractors(world: World, entity: int, kind: str, rng: random.Random) -> list[_Sentence]:
    """Sentences that state no fact; they mention no entity that is in a fact with the page's."""
    groups = world.facts_about(entity, on_page=False)
    related = {entity, *(other for _, _, others in groups for other in others)}
    templates = rng.sample(PAGES['distractors'][kind], rng.choice((0, 0, 1, 1, 2)))
    drawn = [(template, rng.choice(world.ranges[other_kind])) for other_kind, template in templates]
    return [_Sentence(template, 's', [other]) for template, other in drawn if other not in related]


def _document(
    world: World,
    document_id: str,
    entity: int,
    sentences: list[_Sentence],
    reference: str | None,
    rng: random.Random,
) -> Document:
    """Joins sentences; later ones call the page's entity as `reference`, or by name if None."""
    pieces: list[str | int] = []
    for i, sentence in enumerate(sentences):
        by_name = reference is None or i == 0 or rng.random() < _NAME_RATE
        pieces += [' '] if i else []
        pieces += _realise(sentence, entity, None if by_name else reference, rng)
    text, spans = world.spell(pieces)
    mentions = tuple(Mention(start, end, world.keys[mentioned]) for start, end, mentioned in spans)
    return Document(document_id, world.names[entity], text, mentions, world.keys[entity])


def _realise(
    sentence: _Sentence, entity: int, reference: str | None, rng: random.Random
) -> list[str | int]:
    """A sentence as strings and entity ids; `reference` is a table key, or None for the name."""
    pieces: list[str | int] = []
    plural = False
    for literal, slot, _, _ in string.Formatter().parse(sentence.template + '.'):
        if plural and literal.startswith(' was '):
            literal = literal.replace(' was', ' were', 1)
        pieces.append(literal)
        if slot is None:
            break
        side, _, case = slot.partition('.')
        if side == sentence.side and reference is not None and case != 'name':
            opens = pieces == ['']
            is_it = opens and reference not in ('she', 'he') and rng.random() < _IT_RATE
            word = rng.choice(PAGES['references']['it' if is_it else reference])[
                ('', 'him', 'his').index(case)
            ]
            pieces.append(word[0].upper() + word[1:] if opens else word)
            plural = False
        else:
            named = [entity] if side == sentence.side else sentence.others
            pieces += _enumeration(named)
            pieces += ["'s"] if case == 'his' else []
            plural = len(named) > 1
    return pieces


def _enumeration(entities: Sequence[int]) -> list[str | int]:
    """`A`, `A and B` or `A, B and C`."""
    pieces: list[str | int] = []
    for i, entity in enumerate(entities):
        if i:
            pieces.append(' and ' if i == len(entities) - 1 else ', ')
        pieces.append(entity)
    return pieces
