"""The JSON form of an answer in a file of predictions, see `evaluation.predictions`."""

from typing import Any

from opql_jax.corpus.questions import bracketed
from opql_jax.kb.answers import Answer, Hop
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import evidence_of


def prediction_record(answer: Answer, evidence: int) -> dict[str, Any]:
    """The record of an answer.

    Besides the fields of every prediction, each hop has `evidence`, so many of its heaviest entries
    as `paths.evidence_of` gives them, with their weights. What else there is of an `Answer` is
    there as `probability` (of each entity), `sure`, `by_sentences`, `note` (its bounds) and
    `parts`. An answer that is no entity has no key.
    """
    store, question = answer.store, answer.question
    names, keys = store.vocab.names, store.vocab.keys
    record: dict[str, Any] = {
        'id': question.id,
        'question': bracketed(question),
        'hops': question.hops,
        'answers': [
            ({'entity': names[e], 'key': keys[e]} if e >= 0 else {'entity': answer.phrases[-1 - e]})
            | {'weight': round(float(w), 6)}
            for e, w in zip(answer.entities, answer.weights)
        ],
        'traces': [[_hop_record(store, hop, evidence) for hop in hops] for hops in answer.traces],
    }
    if answer.probabilities is not None:
        for one, probability in zip(record['answers'], answer.probabilities.tolist()):
            one['probability'] = round(probability, 4)
    if answer.is_sure is not None:
        record['sure'] = answer.is_sure
    if answer.parts:
        record['parts'] = [prediction_record(part, evidence) for part in answer.parts]
    if answer.is_by_sentences:
        record['by_sentences'] = True
    if answer.bounds:
        record['note'] = '; '.join(answer.bounds)
    if answer.without_memory is not None:
        record['without_memory'] = [names[e] for e in answer.without_memory]
    elif not answer.parts and question.topic_entity < 0 and not len(answer.entities):
        unknown = 'the topic is not in the entity vocabulary'
        record['error'] = unknown if question.topics else 'no sentence says what is asked for'
    return record


def _hop_record(store: FactStore, hop: Hop, evidence: int) -> dict[str, Any]:
    record: dict[str, Any] = {'entities': [store.vocab.keys[e] for e in hop.entities]}
    if hop.null is not None:
        record['null'] = round(hop.null, 6)
    facts = zip(evidence_of(store, hop.entries[:evidence]), hop.entry_weights)
    return record | {'evidence': [{**fact, 'weight': round(float(w), 6)} for fact, w in facts]}
