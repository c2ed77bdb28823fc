"""Whom or what the sentence behind an answer is about: what the question asks about, or another."""

from __future__ import annotations

import re
from collections.abc import Collection

from opql_jax.corpus.question_linking import written_as_names
from opql_jax.kb.answers import Answer
from opql_jax.kb.paths import Fact
from opql_jax.kb.text.roles import is_man
from opql_jax.kb.text.word_lists import stems
from opql_jax.retrieval.words import words_of

# How a sentence begins that is about what the one before names: 'It', 'The album', but not 'The vet
# of' nor 'The first director of'.
GOES_ON = re.compile(
    r'(?:it|its|he|his|she|her|they|their|this|these|the (?-i:(?=[a-z])(?!(?:(?:first|second|third'
    r'|last|next|new|old|former|current|original|chief|main|sole|only|founding|[a-z]+est) )*'
    r'[a-z]+ of\b)))\b',
    re.IGNORECASE,
)
# 'His wife Ann was born in Oslo' goes on about her.
_ITS_NAME = re.compile(r'(?:Its|His|Her|Their) [a-z-]+(?: [a-z-]+)?,? (?:the )?(?=[A-Z])')
_SEX = {'he': True, 'his': True, 'she': False, 'her': False}
# How a sentence goes on after its subject.
_IS_SUBJECT = re.compile(r',? (?:which|who|is|are|has|have|[a-z]+(?<!ly)(?:s|ed)) ')
_SPEAKS_OF_OTHERS = re.compile(r'\b(?:it|its|he|his|him|she|her|they|their|them)\b')
_A_WORD = re.compile(r"[\w'’-]+")
_PREPOSITION = re.compile(r'\b(?:in|on|at|from|to|by|for)\b')
_SMALL_WORD = re.compile(r'\b[a-z]{3,}\b')
# 'Born in Oslo', and ', she married' after a clause with 'while'.
_PARTICIPLE = re.compile(r'[A-Z][a-z]+(?:ed|en|rn|ng|wn|ilt|de|et) ')
_MAIN_CLAUSE = re.compile(r', (?:he|she|it|they)\b')
_IS_VERB = re.compile(r'\b(?:is|are|was|were)\b')
# What begins a clause about the name before it, and what may end one.
_CLAUSE = re.compile(r',? (?:which|who|whom|whose)\b')
_CLAUSE_ENDS = re.compile(r'[,.;:]')
# What stands before an attribute of the subject: 'is a 1993 film'.
_ATTRIBUTE = re.compile(r' (?:is|was) an? (?:[\w-]+ )?$')
# What follows a topic of which something else is meant: "Mara Low's husband".
_OF_TOPIC = re.compile(r"['’]s? \w")


def asked_about(answer: Answer) -> set[str]:
    """The names of the entities that a question asks about."""
    names = answer.store.vocab.names
    return {names[entity] for entity in answer.question.entities if entity >= 0}


def is_about(answer: Answer, fact: Fact) -> bool:
    """Whether a fact's sentence or document names a topic, or an entity on the way from one.

    A sentence that begins with 'It' or the like goes on about what one before it names. If another
    person is named, it has to name one whom the question asks about, if there is any.
    """
    if fact.passage is None or fact.places is None:
        return True
    if _begins_with_another(answer, fact):
        return False
    passage = answer.store.prepared.passage(fact.passage)
    text, (first, last) = passage['text'], fact.places[1]
    entities = {entity for entity in answer.question.entities if entity >= 0} | _passed(answer)
    persons = _persons(answer, entities)
    names_of = answer.store.vocab.names.__getitem__
    sex = _SEX.get(text[first:last].partition(' ')[0].lower())
    if persons and sex is not None and all(is_man(names_of(one)) is (not sex) for one in persons):
        return False
    known = {mention['start'] for mention in passage['mentions']} if persons else ()
    for start in reversed([start for start in passage['sentence_starts'] if start < first]):
        other = _ITS_NAME.match(text, first)
        is_of_other = other and not text.startswith(fact.target, other.end())
        if not GOES_ON.match(text, first) or first in known or is_of_other:
            break  # it is known whom 'She' means, or what it goes on about
        first = start
    said, asked = text[first:last], answer.question.text
    mentioned = {each['entity'] for each in passage['mentions'] if first <= each['start'] < last}
    spans = [*answer.question.topics, *written_as_names(asked)]
    names = [words for start, end in spans if (words := stems(asked[start:end]))]
    others = map(names_of, _persons(answer, mentioned - entities))
    if persons and any(other != fact.target for other in others):
        entities = persons
        names = [stems(names_of(person)) for person in persons]
    if fact.topic in map(names_of, entities):
        return True
    in_sentence, called = stems(said), [stems(said[a:b]) for a, b in written_as_names(said)]
    called.append(stems(fact.title or ''))
    if not names or any(
        name <= in_sentence or any(of and (name <= of or of <= name) for of in called)
        for name in names
    ):
        return True
    return passage['title_entity'] in entities or not mentioned.isdisjoint(entities)


def _begins_with_another(answer: Answer, fact: Fact) -> bool:
    """Whether a sentence is of a name alone that the question has not: 'Kallio employs it'."""
    text, asked = fact.sentence or '', answer.question.text
    if not (spans := written_as_names(text)) or _SPEAKS_OF_OTHERS.search(text):
        return False
    (start, end), *_ = spans
    subject, said = stems(text[start:end]), stems(text)
    about = [*_topics(answer), *(asked[a:b] for a, b in written_as_names(asked))]
    topics = [words for name in about if (words := stems(name))]
    is_target = fact.target_span and fact.target_span[0] < end
    if start or is_target or not subject or not _IS_SUBJECT.match(text, end):
        return False
    return bool(topics) and not any(
        name <= said or subject <= name or not name.isdisjoint(subject) for name in topics
    )


def _persons(answer: Answer, entities: Collection[int]) -> set[int]:
    """The persons among entities."""
    kinds = answer.store.vocab.kinds
    return {entity for entity in entities if kinds[entity] == 'person'}


def _passed(answer: Answer) -> set[int]:
    """The best entities of the steps before the last: what is asked about in the end."""
    return {int(hop.entities[0]) for hops in answer.traces for hop in hops[:-1]}


def _topics(answer: Answer) -> list[str]:
    """The topics of a question as it calls them, and the names of what its steps pass."""
    question, names = answer.question, answer.store.vocab.names
    called = [question.text[start:end] for start, end in question.topics]
    return [*called, *(names[entity] for entity in _passed(answer))]


def is_of_another(answer: Answer, fact: Fact) -> bool:
    """Whether a fact's sentence says it of another name, in a clause or as an attribute.

    Of 'Heron needs Larder, which was written by Sven' Sven has not written Heron, and of 'Low Tide
    is a 1993 parody of High Tide' High Tide is not of 1993. What is asked of a topic's husband may
    be said of him.
    """
    said, question = fact.sentence or '', answer.question
    if not fact.target_span:
        return False
    if any(_OF_TOPIC.match(question.text, end) for _, end in question.topics):
        return False
    start = fact.target_span[0]
    clauses = list(_CLAUSE.finditer(said, 0, start))
    is_in_clause = bool(clauses) and not _CLAUSE_ENDS.search(said, clauses[-1].end(), start)
    told = clauses[-1] if is_in_clause else _ATTRIBUTE.search(said[:start])
    if not told:
        return False
    if fact.topic in asked_about(answer) and fact.topic_span and fact.topic_span[1] == told.start():
        return False  # however the sentence calls it
    topics = [stems(name) for name in _topics(answer)]
    others = [stems(said[a:b]) for a, b in written_as_names(said) if b == told.start()]
    if is_in_clause and any(name <= stems(said[told.end() :]) for name in topics):
        return False
    return any(
        other and not any(name <= other or other <= name for name in topics) for other in others
    )


def is_before_gap(answer: Answer, sentence: str, target: tuple[int, int]) -> bool:
    """Whether what is asked about follows a target, in a part that goes on without its verb.

    'Low was born in 1998 and Orr in 2000' says nothing of Orr by 1998, and 'Low built the church;
    the tower came later' nothing of the tower by Low.
    """
    text, before = answer.question.text, set(_A_WORD.findall(sentence[: target[0]]))
    names = [text[start:end].split()[-1] for start, end in answer.question.topics]
    if not before.isdisjoint(names):
        return False
    names += [word for word in _SMALL_WORD.findall(text) if words_of(word)]
    if not (words := '|'.join(re.escape(name) for name in names if name not in before)):
        return False
    if _PARTICIPLE.match(sentence):
        return False  # 'Founded by Low, the club' is of the club
    begins = rf"(?:[\w.,'’-]+ ){{0,5}}?(?:{words})\b"
    other = re.search(rf'(?:\b(?:while|whereas)|;) {begins}', sentence[target[0] :])
    if other and not _MAIN_CLAUSE.search(sentence, target[0] + other.end()):
        return True
    if not (stands := _PREPOSITION.findall(sentence[: target[1]])):
        return False  # it does or is what the sentence says
    joins = r'(?:\b(?:and|but)|,)' if _IS_VERB.search(sentence[: target[0]]) else r'\b(?:and|but)'
    gap = rf"{joins} {begins}(?:['’]s)?,? (?:\([^()]*\) )?(?:[^.;]* )?{stands[-1]}\b"
    return re.search(gap, sentence[target[0] :]) is not None
