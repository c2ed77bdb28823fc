"""WebQuestionsSP (Yih et al., 2016): questions with semantic parses over Freebase."""

import os

from opql_jax.core.errors import InputError
from opql_jax.corpus import json_lines
from opql_jax.corpus.json_lines import object_field, string_field, string_list_field
from opql_jax.corpus.questions import RELATION_SEPARATOR
from opql_jax.datasets.entity_resolution import EntityResolver, find_name, find_topics, names_of
from opql_jax.datasets.question_records import question_record, to_question_records


def read(path: str | os.PathLike, resolver: EntityResolver) -> list[dict]:
    """Reads the official WebQSP.train.json or WebQSP.test.json; InputError: question, field.

    Topics are marked by the parses' mentions, or else names; answers are those of all parses; the
    type is the first inferential chain. All take one hop: a chain of two goes through a compound
    value, which text states as one fact.
    """

    def convert(record: dict) -> dict:
        text, topics, answers, chains = string_field(record, 'RawQuestion'), [], [], []
        for prefix, parse in json_lines.object_list_field(record, 'Parses'):
            mid = string_field(parse, 'TopicEntityMid', '', prefix)
            name = string_field(parse, 'TopicEntityName', '', prefix)
            mention = string_field(parse, 'PotentialTopicEntityMention', '', prefix)
            if mid or name or mention:
                entity = resolver.key_or_name(name or mention or mid, mid)
                is_marked = mention and find_name(text, [mention])
                names = [mention] if is_marked else [mention, name, *resolver.names(mid)]
                topics.append((entity, names))
            chains.append(string_list_field(parse, 'InferentialChain', prefix))
            for answer_prefix, answer in json_lines.object_list_field(parse, 'Answers', prefix):
                value = string_field(answer, 'AnswerArgument', prefix=answer_prefix)
                name = string_field(answer, 'EntityName', '', answer_prefix) or value
                kind = string_field(answer, 'AnswerType', prefix=answer_prefix)
                answers.append(resolver.key_or_name(name, value if kind == 'Entity' else ''))
        found = find_topics(text, topics, resolver.vocab.id_of_key)
        chain = RELATION_SEPARATOR.join(next(filter(None, chains), []))
        return question_record(string_field(record, 'QuestionId'), text, found, answers, type=chain)

    content = json_lines.read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get('Questions'), list):
        raise InputError(f'{path}: expected a JSON object with a list of Questions')
    return to_question_records(path, enumerate(content['Questions'], 1), convert)


def read_lines(path: str | os.PathLike, resolver: EntityResolver) -> list[dict]:
    """Reads JSON Lines `{qId, question, topic_mid, relations, answers, topic}`, see `read`.

    Answers are names, `topic` is `{label, alternatives, wikidata_id, wikipedia}` or empty, and the
    type is the relations.
    """

    def convert(record: dict) -> dict:
        text, mid = string_field(record, 'question'), string_field(record, 'topic_mid')
        about = object_field(record, 'topic') if record.get('topic') else {}
        names = names_of(about, 'alternatives', 'topic.')
        qid = string_field(about, 'wikidata_id', '', 'topic.')
        label = string_field(about, 'label', '', 'topic.')
        entity = resolver.key_or_name(label or mid, mid, qid, names)
        topics = find_topics(text, [(entity, [*names, *resolver.names(mid, qid)])])
        answers = map(resolver.key_or_name, string_list_field(record, 'answers'))
        relations = RELATION_SEPARATOR.join(string_list_field(record, 'relations'))
        return question_record(string_field(record, 'qId'), text, topics, answers, type=relations)

    return to_question_records(path, json_lines.read_json_lines(path), convert, separator=':')
