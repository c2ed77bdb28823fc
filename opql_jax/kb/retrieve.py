"""Passages that answer questions, of a knowledge base of plain text: what is indexed for it, and how it is asked."""

import collections
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.files import atomic_path
from opql_jax.corpus.json_lines import check_string, map_records, read_json_lines, shown
from opql_jax.data.prepared import Prepared
from opql_jax.models.passage_encoder import PassageEncoder
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import Corpus, RetrievalIndex, build
from opql_jax.retrieval.rank import Question, Ranked, Ranker


def index_passages(folder: str | os.PathLike, prepared: Prepared, encoded: PassageEncoder) -> RetrievalIndex:
    """Indexes the passages of prepared text for retrieval."""
    titles, texts, title_entities, starts, mentions = [], [], [], [], []
    for number, row in enumerate(prepared.passages.to_pylist()):
        # The index counts words of titles by itself.
        prefix = f'{row["title"]}: '
        cut = len(prefix) if row['text'].startswith(prefix) and len(prefix) < len(row['text']) else 0
        titles.append(row['title'])
        texts.append(row['text'][cut:])
        title_entities.append(row['title_entity'])
        starts.append([0, *(start - cut for start in row['sentence_starts'][1:])])
        mentions += [
            (number, mention['start'] - cut, mention['end'] - cut, mention['entity'])
            for mention in row['mentions']
            if mention['start'] >= cut
        ]
    vectors, first = encoded.vectors(), encoded.first_vector[:-1]
    of_passage = np.zeros(len(vectors), bool)
    of_passage[first] = True
    corpus = Corpus(
        ids=[str(number) for number in range(len(texts))],
        titles=titles,
        texts=texts,
        title_entities=np.array(title_entities, np.int32),
        mentions=np.array(mentions, np.int64).reshape(-1, 4),
        num_entities=len(prepared.vocab),
        sentence_starts=starts,
        passage_vectors=vectors[of_passage],
        sentence_vectors=vectors[~of_passage],
    )
    return build(folder, corpus)


class Retrieved(NamedTuple):
    """A document that answers a question.

    Attributes:
        document: its id.
        title, text: of its best passage.
        score: the expected number of times that this is in a chain of passages that answers the question.
        why: how it was reached, in words.
    """

    document: str
    title: str
    text: str
    score: float
    why: str


class Retriever:
    """Ranks the passages of a knowledge base of plain text."""

    def __init__(self, index: RetrievalIndex, prepared: Prepared, encoder: TextEncoder):
        self._ranker, self._index, self._encoder = Ranker(index), index, encoder
        self._documents, self._names = prepared.passages['doc_id'].to_pylist(), prepared.vocab.names
        # As many passages of one document as may stand before the next document.
        self._most = max(collections.Counter(self._documents).values())

    def retrieve(self, questions: Sequence[tuple[str, Sequence[int]]], k: int) -> list[list[Retrieved]]:
        """The k best documents for questions, each with the entities that it names; best first."""
        if not questions:
            return []
        vectors = self._encoder.encode_texts([text for text, _ in questions])
        found = []
        for (text, entities), vector in zip(questions, vectors):
            ranked = self._ranker.rank(Question(text, list(entities), vector), k * self._most)
            best: dict[str, Retrieved] = {}
            for passage in ranked:
                best.setdefault(self._documents[passage.passage], self._retrieved(passage))
            found.append(list(best.values())[:k])
        return found

    def _retrieved(self, ranked: Ranked) -> Retrieved:
        at, reason = ranked.passage, ranked.reason
        if reason.previous is None or reason.entity is None:
            why = 'suits the question'
        else:
            why = f'{self._names[reason.entity]}, from “{self._index.titles[reason.previous]}”'
            if reason.sentence:
                why += f': {self._index.texts[reason.previous][slice(*reason.sentence)].strip()}'
        return Retrieved(self._documents[at], self._index.titles[at], self._index.texts[at], ranked.score, why)


def retrieve_file(kb, questions: str | os.PathLike, output: str | os.PathLike, k: int) -> None:
    """Writes the documents that answer each question of a file: JSON Lines `{"id", "documents": [ids]}`, best first.

    Args:
        kb: a `VirtualKB` of plain text.
        questions: JSON Lines `{"id", "question"}`.
        output: appears whole or not at all.
        k: documents for each question.

    Raises:
        InputError: a line is not such, or k is not possible.
    """
    if os.path.exists(output) and os.path.samefile(questions, output):
        raise InputError(f'{output} holds the questions: name another file')
    if os.path.islink(output):
        raise InputError(f'{output} is a link, which would be replaced: give the name of a file')
    records = [record for _, record in map_records(questions, read_json_lines(questions), _question)]
    if not records:
        raise InputError(f'{questions}: no question in the file')
    if twice := [name for name, count in collections.Counter(str(name) for name, _ in records).items() if count > 1]:
        raise InputError(f'{questions}: id {shown(twice[0])} is that of two questions')
    found = kb.retrieve([text for _, text in records], k)
    with atomic_path(output) as partial, open(partial, 'w', encoding='utf-8') as file:
        for (name, _), passages in zip(records, found):
            documents = [passage.document for passage in passages]
            file.write(json.dumps({'id': name, 'documents': documents}, ensure_ascii=False) + '\n')


def _question(record: object) -> tuple[object, str]:
    if not isinstance(record, dict) or 'id' not in record:
        raise InputError('id: missing: expected {"id", "question"}')
    check_string('id', str(record['id']) if type(record['id']) is int else record['id'])
    check_string('question', record.get('question'))
    return record['id'], record['question']
