"""Passages that answer questions over plain text: what is indexed, and how it is asked."""

import collections
import concurrent.futures
import contextvars
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opql_jax.core import files, time_limit
from opql_jax.core.errors import InputError
from opql_jax.corpus.concepts import CONCEPT
from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.question_linking import followed, joined, left_out_note
from opql_jax.corpus.questions import read_plain
from opql_jax.corpus.splitting import text_start
from opql_jax.data.prepared import Prepared
from opql_jax.data.reading import titled
from opql_jax.kb.ambiguous_names import unknown_names, unknown_note
from opql_jax.kb.answer_record import COUNT, NUMBER, PROBABILITY, object_schema
from opql_jax.kb.answers import bounds
from opql_jax.kb.calibration import LEAST, log_odds
from opql_jax.kb.fact_store import FactStore
from opql_jax.models.reader import Reader
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.baselines import BASELINES, Baseline
from opql_jax.retrieval.corpus import Corpus
from opql_jax.retrieval.index import RetrievalIndex, build
from opql_jax.retrieval.rank import Ranked, Ranker
from opql_jax.retrieval.relations import Relations
from opql_jax.retrieval.view import Question, best

if TYPE_CHECKING:
    from opql_jax.models.passage_encoder import PassageEncoder

# At most so many entities for a name in a question.
_CANDIDATES = 3
# Questions encoded at once, while those before them are ranked.
_BATCH = 128
# Documents that are read: the best, and in turn two others with it, which often state what follows
# from that; three fit, as a rule.
READ = 7
# Weight of the log-odds that a passage helps, beside the logarithm of a document's share. Fitted to
# questions of MuSiQue and HotpotQA that the reader was not trained with: see
# docs/experiments/plain_text.md.
_HELPS = 0.3


def index_passages(
    folder: str | os.PathLike, prepared: Prepared, encoded: 'PassageEncoder', encoded_by: str
) -> RetrievalIndex:
    """Indexes the passages of prepared text for retrieval; `encoded_by` is the encoder's digest."""
    titles, texts, title_entities, starts, mentions = [], [], [], [], []
    for number, row in enumerate(prepared.passages.to_pylist()):
        # The index counts words of titles by itself.
        cut = text_start(row)
        titles.append(row['title'])
        texts.append(row['text'][cut:])
        title_entities.append(row['title_entity'])
        starts.append([0, *(start - cut for start in row['sentence_starts'][1:])])
        # Passages share a concept by accident.
        mentions += [
            (number, mention['start'] - cut, mention['end'] - cut, mention['entity'])
            for mention in row['mentions']
            if mention['start'] >= cut and prepared.vocab.kinds[mention['entity']] != CONCEPT
        ]
    vectors, first = encoded.vectors(), encoded.first_vector[:-1]
    corpus = Corpus(
        ids=[str(number) for number in range(len(texts))],
        titles=titles,
        texts=texts,
        title_entities=np.array(title_entities, np.int32),
        mentions=np.array(mentions, np.int64).reshape(-1, 4),
        names=prepared.vocab.names,
        kinds=encoded.kinds(),
        mention_kinds=encoded.mention_kinds(),
        sentence_starts=starts,
        passage_vectors=vectors[first],
        sentence_vectors=np.delete(vectors, first, axis=0),
        encoded_by=encoded_by,
    )
    return build(folder, corpus)


class Retrieved(NamedTuple):
    """A document that answers a question, with the title and text of its best passage.

    Attributes:
        document: its id.
        score: its share of the chains of passages that were found.
        why: how it was reached, in words.
        probability: that the passage is evidence, by the reader (see `judged`); unlike scores
            comparable between questions. None if it was not read.
        start, end: where the passage stands in the text of the document, in code points, half-open;
            None if documents are not kept.
        sentence: where in `text` the one stands that suits the question best; None without any.
    """

    document: str
    title: str
    text: str
    score: float
    why: str
    probability: float | None = None
    start: int | None = None
    end: int | None = None
    sentence: tuple[int, int] | None = None

    def to_record(self) -> dict[str, Any]:
        """Its JSON form, see `SCHEMA`."""
        record = {name: value for name, value in self._asdict().items() if value is not None}
        record['score'] = round(self.score, 6)
        if self.probability is not None:
            record['probability'] = self.probability
        return record if self.sentence is None else record | {'sentence': list(self.sentence)}


class Documents(list[Retrieved]):
    """Documents that answer a question, best first; `note` says what to know."""

    def __init__(self, documents: Iterable[Retrieved], question: str, note: str):
        super().__init__(documents)
        self.question, self.note = question, note

    def to_record(self) -> dict[str, Any]:
        """The JSON form that all interfaces give, see `SCHEMA`."""
        documents = [document.to_record() for document in self]
        note = {'note': self.note} if self.note else {}
        return {'question': self.question, 'documents': documents} | note


def judged(found: Documents, reader: Reader, k: int) -> Documents:
    """The best k of so many documents and of `READ` at least, with probabilities by a reader.

    Each is the probability that the passage helps to answer, times that those read with it answer.
    The first `READ` are ranked by their shares and by how likely they help.
    """
    texts = [titled(document.title, document.text) for document in found]
    pairs = [texts[at : at + 2] for at in range(1, len(texts), 2)] or [[]]
    parts = [texts[:1] + pair for pair in pairs]
    readings = reader.read([found.question] * len(parts), parts) if found else []
    # The best was read with each pair: what counts is what it says with the next two.
    own = [each.supports[min(number, 1) :] for number, each in enumerate(readings)]
    helps = np.concatenate([np.zeros(0), *own])
    answers = np.repeat([1 - each.unanswered for each in readings], list(map(len, own)))
    likely = (helps * answers).tolist()
    read = [one._replace(probability=round(of, 4)) for one, of in zip(found, likely)]
    shares = np.log([one.score + LEAST for one in found[:READ]])
    order = np.argsort(-(shares + _HELPS * log_odds(helps[:READ])), kind='stable').tolist()
    ranked = [read[at] for at in order] + read[READ:]
    return Documents(ranked[:k], found.question, found.note)


# JSON Schema of the record of documents.
_DOCUMENT = object_schema(
    {
        'document': 'its id',
        'title': 'of the document',
        'text': 'of its best passage',
        'score': (NUMBER, 'its share of the chains of passages; ranked by it, and by the reader'),
        'why': 'how it was reached',
        'probability': (
            PROBABILITY,
            'that it is evidence, by the reader, comparable between questions; absent if not read',
        ),
        'start': (COUNT, 'where the passage begins in the document as it was read, in code points'),
        'end': (COUNT, 'where it ends'),
        'sentence': (
            {'type': 'array', 'items': COUNT, 'minItems': 2, 'maxItems': 2},
            'start and end, in the text, of the sentence that suits the question best',
        ),
    },
    optional=('probability', 'start', 'end', 'sentence'),
)
SCHEMA = object_schema(
    {
        'question': 'what was asked',
        'note': 'names that the text does not have, what was left out to bound the work; or absent',
        'documents': ({'type': 'array', 'items': _DOCUMENT}, 'best first'),
    },
    optional=('note',),
    description='The documents that together answer a question.',
)


# A way to rank documents: of texts of questions and k, the ids of the k best documents for each.
Ranking = Callable[[Sequence[str], int], list[list[str]]]


class Retriever:
    """Ranks documents of plain text; `documents` has the document id of each indexed passage."""

    def __init__(self, index: RetrievalIndex, store: FactStore, encoder: TextEncoder):
        """Takes the index of the passages of a store, and the encoder of both."""
        self.index, self._store, self._encoder = index, store, encoder
        self.documents = store.prepared.passages['doc_id'].to_pylist()
        # As many passages of one document as may stand before the next document.
        self._most = max(collections.Counter(self.documents).values())

    @functools.cached_property
    def relations(self) -> Relations:
        """The relations of the memory, by passage."""
        memory = self._store.memory
        assert memory is not None  # `index_text` writes both
        mentions = memory.mentions(np.arange(len(memory)))
        rows = memory.rows(mentions['entry'])
        return Relations(
            mentions['passage'],
            memory.topic[rows],
            memory.target[rows],
            self.index.num_entities,
            lambda at: memory.relations(rows[at]),
        )

    @functools.cached_property
    def _ranker(self) -> Ranker:
        return Ranker(self.index, relations=self.relations)

    @functools.cached_property
    def texts(self) -> Mapping[str, str]:
        texts: dict[str, list[str]] = {}
        for document, text in zip(self.documents, self.index.texts):
            texts.setdefault(document, []).append(text)
        return {document: ' '.join(parts) for document, parts in texts.items()}

    def retrieve(self, questions: Sequence[str], k: int) -> list[Documents]:
        """The k best documents for questions, best first."""
        batches = [questions[start : start + _BATCH] for start in range(0, len(questions), _BATCH)]
        # One batch is encoded, which leaves Python to others, while the one before it is ranked.
        with concurrent.futures.ThreadPoolExecutor(1) as encoding:
            run = contextvars.copy_context().run
            encoded = encoding.map(lambda batch: run(self.questions, batch), batches)
            ranked = (self.best_documents(self._ranker, batch, k) for batch in encoded)
            return list(itertools.chain.from_iterable(ranked))

    def rank(self, texts: Sequence[str], k: int) -> list[list[Ranked]]:
        """The k best passages for questions, best first."""
        return [list(ranked) for ranked in self._ranker.rank_all(self.questions(texts), k)]

    def compare(self) -> dict[str, Ranking]:
        """Rankers by name: `retrieve`, the same without links, and the baselines."""

        def ours(ranker: Ranker) -> Ranking:
            return lambda texts, k: [
                [found.document for found in documents]
                for documents in self.best_documents(ranker, self.questions(texts), k)
            ]

        def other(baseline: Baseline) -> Ranking:
            distinct = lambda passages: dict.fromkeys(self.documents[at] for at in passages)
            return lambda texts, k: [
                list(distinct(best(scores, k * self._most)))[:k]
                for scores in baseline(self.index, self.questions(texts))
            ]

        return {
            **{name: other(baseline) for name, baseline in BASELINES.items()},
            'without following links': ours(Ranker(self.index, links=False)),
            'without relations': ours(Ranker(self.index)),
            'opql retrieve': ours(self._ranker),
        }

    def questions(self, texts: Sequence[str]) -> list[Question]:
        """Questions as the index sees them."""
        if not texts:
            return []
        linked = [self._store.linker.link(text) for text in texts]
        names, others = zip(*map(followed, linked))
        topics = [[(named.start, named.end) for named in each] for each in names]
        vectors, relations = self._encoder.encode_texts_and_topics(texts, topics)
        meant = lambda named: named.entities[:_CANDIDATES]
        questions, words = [], self.index.word_ids
        for text, found, of, left, vector, asked in zip(
            texts, linked, names, others, vectors, relations
        ):
            entities = [entity for named in of for entity in meant(named)]
            pairs = [(meant(one), meant(other)) for one, other in joined(text, of)]
            left_out = left_out_note([text[named.start : named.end] for named in left])
            unknown = unknown_note(unknown_names(text, found, words))
            notes = list(filter(None, (left_out, unknown)))
            questions.append(Question(text, entities, vector, asked, pairs, notes))
        return questions

    def best_documents(
        self, ranker: Ranker, questions: Sequence[Question], k: int
    ) -> Iterator[Documents]:
        """The k best documents for questions by any ranker of the index, best first."""
        for question, ranked in zip(questions, ranker.rank_all(questions, k * self._most)):
            first: dict[str, Ranked] = {}
            for passage in ranked:
                first.setdefault(self.documents[passage.passage], passage)
                if len(first) == k:
                    break
            note = '; '.join([*question.notes, *bounds((), time_limit.is_cut())])
            yield Documents(map(self._retrieved, first.values()), question.text, note)

    def _retrieved(self, ranked: Ranked) -> Retrieved:
        at, reason = ranked.passage, ranked.reason
        why = 'suits the question'
        if reason.previous is not None and reason.entity is not None:
            before = f'from “{self.index.titles[reason.previous]}”'
            why = f'{self._store.vocab.names[reason.entity]}, {before}'
            if reason.sentence:
                why += f': {self.index.texts[reason.previous][slice(*reason.sentence)].strip()}'
        prepared, title, text = self._store.prepared, self.index.titles[at], self.index.texts[at]
        length = len(prepared.passages['text'][at].as_py())  # which may begin with the title
        start = prepared.document_offset(at, length - len(text))
        place = start, prepared.document_offset(at, length), ranked.sentence
        return Retrieved(self.documents[at], title, text, ranked.score, why, None, *place)


def retrieve_file(
    kb, questions: str | os.PathLike, output: str | os.PathLike, k: int, read: bool = False
) -> None:
    """Writes the documents for each question `{"id", "question"}` of a JSON Lines file, best first.

    `output`, JSON Lines `{"id", "documents": [ids]}`, appears whole or not at all; a question of
    which names are left out also has a `note`. InputError: a line is not such, or k not possible.
    """
    if os.path.exists(output) and os.path.samefile(questions, output):
        raise InputError(f'{output} holds the questions: name another file')
    files.refuse_link(output)
    asked = read_plain(questions, lambda record: record['question'])
    records = []
    for (name, _), found in zip(asked, kb.retrieve([text for _, text in asked], k, read=read)):
        note = {'note': found.note} if found.note else {}
        records.append({'id': name, 'documents': [one.document for one in found]} | note)
    write_json_lines(output, records)
