"""Whether the passage behind an answer is about what the question asks about."""

from __future__ import annotations

import re

from opql_jax.corpus.question_linking import written_as_names
from opql_jax.kb.answers import Answer
from opql_jax.kb.paths import Fact
from opql_jax.kb.text.word_lists import stems

# How a sentence begins that is about what the one before names: 'It', 'The album', but not 'The vet
# of' nor 'The first director of'.
GOES_ON = re.compile(
    r'(?:it|its|he|his|she|her|they|their|this|these|the (?-i:(?=[a-z])(?!(?:(?:first|second|third'
    r'|last|next|new|old|former|current|original|chief|main|sole|only|founding|[a-z]+est) )*'
    r'[a-z]+ of\b)))\b',
    re.IGNORECASE,
)


def asked_about(answer: Answer) -> set[str]:
    """The names of the entities that a question asks about."""
    names = answer.store.vocab.names
    return {names[entity] for entity in answer.question.entities if entity >= 0}


def is_about(answer: Answer, fact: Fact) -> bool:
    """Whether a fact's sentence or title names what a question, or a step of its plans, names.

    A sentence that begins with 'It' or the like goes on about what the one before it names.
    """
    question, vocab = answer.question, answer.store.vocab
    spans = [*question.topics, *written_as_names(question.text)]
    names = [words for start, end in spans if (words := stems(question.text[start:end]))]
    if fact.passage is None or fact.places is None or not names:
        return True
    passage = answer.store.prepared.passage(fact.passage)
    text, (first, last) = passage['text'], fact.places[1]
    for start in reversed([start for start in passage['sentence_starts'] if start < first]):
        if not GOES_ON.match(text, first):
            break
        first = start
    passed = {int(hop.entities[0]) for hops in answer.traces for hop in hops[:-1]}
    asked = passed.union(entity for entity in question.entities if entity >= 0)
    mentioned = {each['entity'] for each in passage['mentions'] if first <= each['start'] < last}
    if passage['title_entity'] in asked or fact.topic in {vocab.names[one] for one in asked}:
        return True
    said = stems(f'{fact.title or ""} {text[first:last]}')
    return not asked.isdisjoint(mentioned) or any(name <= said for name in names)
