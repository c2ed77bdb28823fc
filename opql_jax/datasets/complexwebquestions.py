"""ComplexWebQuestions (Talmor and Berant, 2018): compositions of WebQSP's questions, with SPARQL queries over Freebase."""

from __future__ import annotations

import os
import re

from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.json_lines import object_list_field, read_json, string_field, string_list_field
from opql_jax.datasets.entity_resolution import EntityLink, EntityResolver, find_topics
from opql_jax.datasets.linked_questions import LinkedQuestion, read_linked

_SPARQL_MID = re.compile(r'\bns:([mg]\.\w+)')


def read(path: str | os.PathLike, resolver: EntityResolver) -> list[LinkedQuestion]:
    """Reads the official ComplexWebQuestions_train.json or ComplexWebQuestions_dev.json.

    Topics are the MIDs of the SPARQL query, marked where the text has one of the names that `resolver` knows for them. A
    composition has 2 hops, all others have 1; the type is the compositionality type.

    Raises:
        CorpusError: the file is not of this form; names the question, counting from 1, and the field.
    """

    def convert(record: dict) -> LinkedQuestion:
        text, kind = string_field(record, 'question'), string_field(record, 'compositionality_type')
        topics, answers = [], []
        for mid in dict.fromkeys(_SPARQL_MID.findall(string_field(record, 'sparql'))):
            names = resolver.names(mid)
            topics.append((EntityLink(resolver.entity(mid), names[0] if names else mid), names))
        for prefix, answer in object_list_field(record, 'answers'):
            mid, name = string_field(answer, 'answer_id', '', prefix), string_field(answer, 'answer', '', prefix)
            entity = resolver.entity(mid, names=[name, *string_list_field(answer, 'aliases', prefix)])
            if not (name or mid):
                raise CorpusError(f'{prefix}answer: there is neither a name nor an answer_id')
            answers.append(EntityLink(entity, name or mid))
        hops = 2 if kind == 'composition' else 1
        return LinkedQuestion(string_field(record, 'ID'), text, find_topics(text, topics), answers, hops, kind)

    questions = read_json(path)
    if not isinstance(questions, list):
        raise CorpusError(f'{path}: expected a JSON list of questions, found {type(questions).__name__}')
    return read_linked(path, enumerate(questions, 1), convert)
