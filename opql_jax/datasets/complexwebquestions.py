"""ComplexWebQuestions (Talmor and Berant, 2018): compositions of WebQSP's questions, and SPARQL."""

import os
import re

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import object_list_field, read_json, string_field, string_list_field
from opql_jax.datasets.entity_resolution import EntityResolver, find_topics
from opql_jax.datasets.question_records import question_record, to_question_records

_SPARQL_MID = re.compile(r'\bns:([mg]\.\w+)')


def read(path: str | os.PathLike, resolver: EntityResolver) -> list[dict]:
    """Reads the official ComplexWebQuestions_train.json or _dev.json; InputError: question, field.

    Topics are the SPARQL query's MIDs that the text names; only a composition has 2 hops.
    """

    def convert(record: dict) -> dict:
        text, kind = string_field(record, 'question'), string_field(record, 'compositionality_type')
        topics, answers = [], []
        for mid in dict.fromkeys(_SPARQL_MID.findall(string_field(record, 'sparql'))):
            names = resolver.names(mid)
            topics.append((resolver.key_or_name(names[0] if names else mid, mid), names))
        for prefix, answer in object_list_field(record, 'answers'):
            mid = string_field(answer, 'answer_id', '', prefix)
            name = string_field(answer, 'answer', '', prefix)
            if not (name or mid):
                raise InputError(f'{prefix}answer: there is neither a name nor an answer_id')
            names = [name, *string_list_field(answer, 'aliases', prefix)]
            answers.append(resolver.key_or_name(name or mid, mid, names=names))
        found = find_topics(text, topics, resolver.vocab.id_of_key)
        hops = 2 if kind == 'composition' else 1
        return question_record(string_field(record, 'ID'), text, found, answers, hops, kind)

    questions = read_json(path)
    if not isinstance(questions, list):
        raise InputError(f'{path}: expected a JSON list of questions')
    return to_question_records(path, enumerate(questions, 1), convert)
