"""Sets of open questions as SeqIO tasks, to train a language model on and to score one.

    register('webqsp', '/data/prepared', {'train': 'webqsp.train.jsonl', 'test': 'webqsp.test.jsonl'}, num_steps=20_000)
    register('complexwebq', '/data/prepared', {'train': 'cwq.train.jsonl', 'dev': 'cwq.dev.jsonl'}, num_steps=20_000)
    seqio.MixtureRegistry.add('both', [('webqsp', 1), ('complexwebq', 3)])

    evaluator = seqio.Evaluator('webqsp', EvaluatedBatches(), eval_split='test', target_field_name='questions/0/answers')
    metrics, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict_fn)

Files are those that `opql_jax.convert_questions` writes. An element is a batch of questions of one number of hops (see
`opql.py`), so elements of a mixture come whole from one task. Features are the paths of `OpenQuestionBatch`, such as
'questions/0/answers'; `hops` is [n], as SeqIO's evaluator takes no scalar.

The split 'train' is what `OpenQuestionSource` draws. Every other split is `EachQuestion`. `predict_fn` returns for each of its
elements (index, entity ids [n, K], best first).
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np
import seqio

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question, read_questions
from opql_jax.data import batching, lm_markup
from opql_jax.data.batching import round_up
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import check_length
from opql_jax.data.sources.base import Hops, Source
from opql_jax.data.sources.open_questions import OpenQuestionBatch, OpenQuestionSource
from opql_jax.data.texts import TextRow, TextSizes, pack_texts
from opql_jax_tasks import opql

CUTOFFS = (1, 5, 10)
# An answer that the vocabulary lacks, in `answers` of `EachQuestion`.
UNKNOWN = -2


class EachQuestion(Source):
    """Each question once, in batches of one number of hops, few hops first.

    Batches are like those of `OpenQuestionSource`, with all answers of a question in `answers`: first the entities, then UNKNOWN
    for each answer that the vocabulary lacks, then -1 as padding. An unused row has nothing but padding. `label` is the first
    entity, -1 if there is none.
    """

    def __init__(self, prepared: Prepared, questions: Sequence[Question], *, rows: int = 64):
        """Takes questions and the rows of a batch; InputError names a question that has no answers or is too long."""
        super().__init__(0)
        self._questions, self._special, self._rows = sorted(questions, key=lambda q: q.hops), prepared.special, rows
        self._inputs = [
            lm_markup.mark_open_question(prepared.tokenizer, q.text, q.topics, prepared.special) for q in self._questions
        ]
        self._answers = [[*q.answers, *[UNKNOWN] * len(q.unknown_answers)] for q in self._questions]
        for question, marked, answers in zip(self._questions, self._inputs, self._answers):
            if not answers:
                raise InputError(
                    f'question {question.id} ({question.text!r}) has no answers, so it cannot be scored: remove it'
                )
            check_length(question.id, len(marked.tokens))
        self._length = round_up(max(len(marked.tokens) for marked in self._inputs), 8)
        width = round_up(max(map(len, self._answers)), 8)
        self._sizes = TextSizes(topics=max(len(q.topics) for q in self._questions), answers=width)
        hops = np.array([q.hops for q in self._questions])
        runs = [np.flatnonzero(hops == h) for h in np.unique(hops)]
        self._batches = [run[at : at + rows] for run in runs for at in range(0, len(run), rows)]

    def __len__(self) -> int:
        return len(self._batches)

    def batch(self, step, rng) -> OpenQuestionBatch:
        packer, rows = batching.Packer({self._length: self._rows}), []
        for i in self._batches[step]:
            packer.add(len(self._inputs[i].tokens))
            rows.append(TextRow(self._inputs[i], max(self._answers[i][0], -1), self._answers[i]))
        hops = Hops(self._questions[self._batches[step][0]].hops)
        return OpenQuestionBatch(pack_texts(rows, packer, self._sizes, self._special), hops)


class HopsPerRow(Source):
    """Batches of a source of questions whose number of hops is an array, [n] int32."""

    def __init__(self, source: Source):
        super().__init__(0)
        self._source = source

    def __getitem__(self, step):
        batch = self._source[step]
        return batch._replace(hops=np.full(len(batch.questions[0].label), batch.hops, np.int32))


class EvaluatedBatches(seqio.PassThroughFeatureConverter):
    """SeqIO's pass-through converter with the attributes that its evaluator reads."""

    TASK_FEATURES = {}
    pack = False


def ranked_entities(targets, predictions) -> dict[str, float]:
    """SeqIO metric function: Hits@{1,5,10}, and `answer_coverage`, the share of questions that the vocabulary has an answer to.

    Questions that it has no answer to count, as wrong.

    Args:
        targets: `answers` of each batch, [n, A], of `EachQuestion`.
        predictions: entity ids of each batch, [n, K], best first; -1 where there are fewer.
    """
    rows = [row for batch in zip(targets, predictions, strict=True) for row in zip(*map(np.asarray, batch), strict=True)]
    rows = [(answers[answers >= 0], ranked) for answers, ranked in rows if (answers != -1).any()]
    found = [np.flatnonzero(np.isin(ranked, known)) for known, ranked in rows]
    hits = {f'hits@{cutoff}': float(np.mean([bool((at < cutoff).any()) for at in found])) for cutoff in CUTOFFS}
    return hits | {'answer_coverage': float(np.mean([len(known) > 0 for known, _ in rows]))}


def register(
    name: str, prepared_dir: str | os.PathLike, files: Mapping[str, str | os.PathLike], *, num_steps: int, rows: int = 64
) -> seqio.Task:
    """Registers files of open questions as the splits of a task.

    Args:
        name: of the task.
        prepared_dir: the prepared directory whose entities the answers are.
        files: for each split its file.
        num_steps: batches of the split 'train'.
        rows: of a batch.

    Raises:
        InputError: for a file that cannot be read, or whose questions cannot be trained on or scored.
        ValueError: a name that is already registered.
    """
    prepared = Prepared(prepared_dir)
    questions = {split: read_questions(path, prepared.vocab) for split, path in files.items()}

    def source(split):
        if split == 'train':
            return lambda seed: HopsPerRow(OpenQuestionSource(prepared, questions[split], rows=rows, seed=seed)), num_steps
        each = EachQuestion(prepared, questions[split], rows=rows)
        return lambda seed: HopsPerRow(each), len(each)

    return opql.add(name, prepared_dir, {split: source(split) for split in files}, [ranked_entities])
