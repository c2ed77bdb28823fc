"""Plain questions as queries: the relations that the best plan of a question follows."""

import re
from collections.abc import Iterator

from opql_jax.core.errors import InputError
from opql_jax.kb.answers import Answer
from opql_jax.kb.sets import query as tree
from opql_jax.kb.sets.entity_set import EntitySet
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.text.question_plans import Plan, Step, says_something
from opql_jax.kb.text.word_lists import any_of

# What begins a phrase or a question, and names no relation.
_ASKS = any_of('question_words', 'auxiliaries')
_OPENING = re.compile(rf"^(?:(?:in|on|at|the|an?|those|all|{_ASKS}|['’]s?)(?:\s+|$))+", re.I)


def as_query(answer: Answer, sets: SetEvaluator) -> EntitySet | None:
    """A set whose best member is an answer's, by the words of its plan; None if they make none."""
    if not len(answer) or answer.entities[0] < 0:
        return None
    store, best = answer.store, int(answer.entities[0])
    for plan, topic in zip(answer.plans, answer.question.entities):
        for query in _queries(plan, store.linker.unique_name(topic)) if topic >= 0 else ():
            for narrowed in (query, tree.Where(query, 'kind', store.vocab.kinds[best])):
                try:
                    found = EntitySet(sets, narrowed)
                except InputError:  # of a name that the query language does not take for one entity
                    return None
                if found.entities[:1].tolist() == [best]:
                    return found
    return None


def _queries(plan: Plan, name: str) -> Iterator[tree.Query]:
    """The queries that a plan may be: as worded, then with relations followed from the known."""
    relations = [_relation(step) for step in plan]
    if not all(words for words, _ in relations):
        return
    as_worded = tuple(inverse for _, inverse in relations)
    for directions in dict.fromkeys([as_worded, (False,) * len(relations)]):
        query: tree.Query = tree.Entity(name)
        for (words, _), inverse in zip(relations, directions):
            query = tree.Follow(query, words, inverse)
        yield query


def _relation(step: Step) -> tuple[str, bool]:
    """The words of a step's relation, '' if none, and whether they stand before the topic."""
    before, after = step.text[: step.topic[0]], step.text[step.topic[1] :]
    inverse = not says_something(Step(f'it {after}', (0, 2)))
    words = ' '.join(re.findall(r"[\w'’-]+", before if inverse else after))
    return _OPENING.sub('', words), inverse
