"""Other formats of question answering, turned into question files (see `corpus.questions`).

Entities are told by the keys and names of a vocabulary and by optional tables of Freebase MIDs and Wikidata QIDs; nothing
else is looked up. Questions in which no topic can be marked are left out, and counted.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable

from opql_jax.core import files
from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import map_records, object_list_field, read_json_lines, string_field, string_list_field
from opql_jax.corpus.questions import RELATION_SEPARATOR, write_questions
from opql_jax.datasets import metaqa
from opql_jax.datasets.docred import read_json
from opql_jax.datasets.entity_resolution import EntityResolver, Name, find_mentions, find_name, spellings_of

_SPARQL_MID = re.compile(r'\bns:([mg]\.\w+)')


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How much of a data set a vocabulary has. An answer counts once in each question.

    The figures published with OPQL, 88.2 % of the questions of WebQuestionsSP and 94.2 % of those of ComplexWebQuestions, are
    `with_answer_in_vocabulary`: no system that answers by entities of the vocabulary can be right more often.

    Attributes:
        questions: all questions of the file.
        with_mention: those in which a topic could be marked; these are the records.
        with_topic_in_vocabulary: those with a mention whose entity the vocabulary has.
        with_answer_in_vocabulary: those with at least one answer that the vocabulary has, whether with a mention or not.
        answers: the answers of all questions.
        answers_in_vocabulary: those of them that the vocabulary has.
    """

    questions: int
    with_mention: int
    with_topic_in_vocabulary: int
    with_answer_in_vocabulary: int
    answers: int
    answers_in_vocabulary: int

    @property
    def no_mention(self) -> int:
        """The questions that were left out."""
        return self.questions - self.with_mention

    def report(self) -> str:
        """A line for each count, with its share of all questions or answers."""
        rows = [
            ('questions', self.questions, None),
            ('with a mention', self.with_mention, self.questions),
            ('without a mention, left out', self.no_mention, self.questions),
            ('with a topic in the vocabulary', self.with_topic_in_vocabulary, self.questions),
            ('with an answer in the vocabulary', self.with_answer_in_vocabulary, self.questions),
            ('answers', self.answers, None),
            ('answers in the vocabulary', self.answers_in_vocabulary, self.answers),
        ]
        return '\n'.join(f'{name:<33}{n:>9,}' + (f'{100 * n / of:>8.1f} %' if of else '') for name, n, of in rows)


@dataclasses.dataclass(frozen=True)
class Found:
    """A question as another format has it, with the places `(start, end, name)` of its topics, if any could be marked."""

    id: str
    text: str
    mentions: list[tuple[int, int, Name]]
    answers: list[Name]
    hops: int
    type: str


def webqsp(path: str | os.PathLike, resolve: EntityResolver) -> tuple[list[dict], Coverage]:
    """The official WebQSP.train.json or WebQSP.test.json.

    Mentions are those of the parses, or, where the raw question has none of them, names of the topics. The answers of all
    parses are joined. The type is the first inferential chain there is. All take one hop: a chain of two relations goes through a compound
    value, such as a marriage, and states what a text says as one (of such questions about Wikispeedia's entities a single entry answers 91 %).

    Returns:
        The records of an open-question file, and the coverage.

    Raises:
        CorpusError: the file is not of this form; names the question, counting from 1, and the field.
    """

    def one(record) -> Found:
        text, topics, answers, chains = string_field(record, 'RawQuestion'), [], [], []
        for at, parse in object_list_field(record, 'Parses'):
            mid, name = string_field(parse, 'TopicEntityMid', '', at), string_field(parse, 'TopicEntityName', '', at)
            mention = string_field(parse, 'PotentialTopicEntityMention', '', at)
            if mid or name or mention:
                topic = Name(resolve.entity(mid, names=[name or mention]), name or mention or mid)
                marked = find_name(text, [mention]) if mention else None
                topics.append((topic, [mention] if marked else [mention, name, *resolve.names(mid)]))
            chains.append(string_list_field(parse, 'InferentialChain', at))
            for here, answer in object_list_field(parse, 'Answers', at):
                value = string_field(answer, 'AnswerArgument', prefix=here)
                name = string_field(answer, 'EntityName', '', here) or value
                mid = value if string_field(answer, 'AnswerType', prefix=here) == 'Entity' else ''
                answers.append(Name(resolve.entity(mid, names=[name]), name))
        chain = next(filter(None, chains), [])
        return Found(
            string_field(record, 'QuestionId'), text, find_mentions(text, topics), answers, 1, RELATION_SEPARATOR.join(chain)
        )

    questions = read_json(path)
    if not isinstance(questions, dict) or not isinstance(questions.get('Questions'), list):
        raise CorpusError(f'{path}: expected a JSON object with a list of Questions')
    return _records(_each(path, enumerate(questions['Questions'], 1), one, ': question '), resolve.vocab)


def webqsp_lines(path: str | os.PathLike, resolve: EntityResolver) -> tuple[list[dict], Coverage]:
    """JSON Lines `{qId, question, topic_mid, relations, answers, topic}`, made of WebQSP.

    Answers are names, and `topic` is `{label, alternatives, wikidata_id, wikipedia}` or empty. The type is the
    relations. For hops, results and errors see `webqsp`; errors name the line.
    """

    def one(record) -> Found:
        text, mid = string_field(record, 'question'), string_field(record, 'topic_mid')
        about = record.get('topic') or {}
        if not isinstance(about, dict):
            raise CorpusError(f'topic: expected an object, found {about!r}')
        names, qid = spellings_of(about, 'alternatives', 'topic.'), string_field(about, 'wikidata_id', '', 'topic.')
        topic = Name(resolve.entity(mid, qid, names), string_field(about, 'label', '', 'topic.') or mid)
        answers = [Name(resolve.entity(names=[name]), name) for name in string_list_field(record, 'answers')]
        relations = string_list_field(record, 'relations')
        mentions = find_mentions(text, [(topic, [*names, *resolve.names(mid, qid)])])
        return Found(string_field(record, 'qId'), text, mentions, answers, 1, RELATION_SEPARATOR.join(relations))

    return _records(_each(path, read_json_lines(path), one, ':'), resolve.vocab)


def complexwebq(path: str | os.PathLike, resolve: EntityResolver) -> tuple[list[dict], Coverage]:
    """The official ComplexWebQuestions_train.json or ComplexWebQuestions_dev.json.

    Topics are the MIDs of the SPARQL query, by the names that `resolve` has for them. A composition has 2 hops, all others
    have 1; the type is the compositionality type. For results and errors see `webqsp`.
    """

    def one(record) -> Found:
        text, kind = string_field(record, 'question'), string_field(record, 'compositionality_type')
        topics, answers = [], []
        for mid in dict.fromkeys(_SPARQL_MID.findall(string_field(record, 'sparql'))):
            names = resolve.names(mid)
            topics.append((Name(resolve.entity(mid), names[0] if names else mid), names))
        for at, answer in object_list_field(record, 'answers'):
            mid, name = string_field(answer, 'answer_id', '', at), string_field(answer, 'answer', '', at)
            entity = resolve.entity(mid, names=[name, *string_list_field(answer, 'aliases', at)])
            if not (name or mid):
                raise CorpusError(f'{at}answer: there is neither a name nor an answer_id')
            answers.append(Name(entity, name or mid))
        hops = 2 if kind == 'composition' else 1
        return Found(string_field(record, 'ID'), text, find_mentions(text, topics), answers, hops, kind)

    questions = read_json(path)
    if not isinstance(questions, list):
        raise CorpusError(f'{path}: expected a JSON list of questions, found {type(questions).__name__}')
    return _records(_each(path, enumerate(questions, 1), one, ': question '), resolve.vocab)


def metaqa_lines(path: str | os.PathLike, vocab: EntityVocab, hops: int) -> tuple[list[dict], Coverage]:
    """A file in the MetaQA format, the topic in brackets being the mention; for errors see `metaqa.read_questions`."""
    found = []
    for question in metaqa.read_questions(path, vocab, hops):
        entity = None if question.topic_entity < 0 else question.topic_entity
        topic = (*question.topic, Name(entity, question.text[slice(*question.topic)]))
        answers = [Name(entity, vocab.keys[entity]) for entity in question.answers]
        answers += [Name(None, name) for name in question.unknown_answers]
        found.append(Found(question.id, question.text, [topic], answers, hops, question.type))
    return _records(found, vocab)


def convert(
    *,
    format: str,
    path: str | os.PathLike,
    vocab: EntityVocab,
    output: str | os.PathLike,
    hops: int = 1,
    mid_to_qid: str | os.PathLike | None = None,
    qid_labels: str | os.PathLike | None = None,
) -> Coverage:
    """Turns a file of another format into one of open questions, and writes its coverage to `<output>.coverage.json`.

    Args:
        format: 'webqsp', 'webqsp_lines', 'complexwebq' or 'metaqa'.
        path: the file to read.
        vocab: the entities there are.
        output: the file to write.
        hops: of the questions of a MetaQA file; the other formats tell it themselves.
        mid_to_qid, qid_labels: tables that `EntityResolver` reads; a MetaQA file needs none.

    Raises:
        CorpusError: a file cannot be read, or no question of it has a mention.
    """
    converters: dict[str, Callable] = {'webqsp': webqsp, 'webqsp_lines': webqsp_lines, 'complexwebq': complexwebq}
    if format == 'metaqa':
        records, coverage = metaqa_lines(path, vocab, hops)
    elif format in converters:
        records, coverage = converters[format](path, EntityResolver(vocab, mid_to_qid, qid_labels))
    else:
        raise CorpusError(f'format={format!r}: expected one of {", ".join([*converters, "metaqa"])}')
    if not records:
        raise CorpusError(f'{path}: no topic is named in any of {coverage.questions} questions; give mid_to_qid and qid_labels')
    write_questions(output, records)
    with files.atomic_path(f'{os.fspath(output)}.coverage.json') as partial:
        counts = {**dataclasses.asdict(coverage), 'no_mention': coverage.no_mention}
        partial.write_text(json.dumps(counts, indent=2) + '\n', encoding='utf-8')
    return coverage


def _each(path, records: Iterable[tuple[int, object]], one: Callable[[dict], Found], at: str) -> list[Found]:
    """What `one` makes of each numbered record of a file; errors name the place of the record."""
    found, places = [], {}
    for number, made in map_records(path, records, one, at):
        found.append(made)
        if (first := places.setdefault(made.id, number)) != number:
            raise CorpusError(f'{path}{at}{number}: id {made.id!r} is already that of number {first}')
    return found


def _records(found: Iterable[Found], vocab: EntityVocab) -> tuple[list[dict], Coverage]:
    """The records of the questions with a mention, entities as keys and unknown ones as names, and the coverage of all."""
    written = lambda name: name.text if name.entity is None else vocab.keys[name.entity]
    records, counts = [], collections.Counter()
    for question in found:
        once = {written(name): name for name in question.answers}
        known = sum(name.entity is not None for name in once.values())
        counts.update(questions=1, with_answer_in_vocabulary=known > 0, answers=len(once), answers_in_vocabulary=known)
        if question.mentions:
            topics = sum(name.entity is not None for _, _, name in question.mentions)
            counts.update(with_mention=1, with_topic_in_vocabulary=topics > 0)
            records.append(
                {
                    'id': question.id,
                    'question': question.text,
                    'topics': [[start, end] for start, end, _ in question.mentions],
                    'entities': [written(name) for _, _, name in question.mentions],
                    'answers': list(once),
                    'hops': question.hops,
                    'type': question.type,
                }
            )
    return records, Coverage(**{field.name: int(counts[field.name]) for field in dataclasses.fields(Coverage)})
