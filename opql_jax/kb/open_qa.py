"""Open questions answered by a language model with a memory, and how well (paper section 4.2)."""

import dataclasses
import functools
import hashlib
import json
import pathlib

import jax
import numpy as np

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.core.files import atomic_path
from opql_jax.corpus.questions import Question, bracketed, read_questions
from opql_jax.data import batching, lm_markup
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import round_up
from opql_jax.evaluation import metrics
from opql_jax.evaluation.checkpoints import score_steps
from opql_jax.kb.predictions import read_predictions, write_predictions
from opql_jax.kb.virtual_kb import evidence, with_new_entities
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory, params_hash
from opql_jax.models.language_model import ANSWERS, LanguageModel, best_entities, with_directions
from opql_jax.parallel.entity_table import Layout, place
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import lm_stages, model_config
from opql_jax.training.checkpoints import CheckpointError


@dataclasses.dataclass(frozen=True)
class Retrieval:
    """What one topic read in one hop.

    Attributes:
        null: lambda, the mass of null; 0 in a model without it.
        entries, weights: ids of memory entries, best first, and their mass.
        targets: their targets.
    """

    null: float
    entries: np.ndarray
    weights: np.ndarray
    targets: np.ndarray


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model says to one question.

    Attributes:
        entities, scores: the best entities of all and their probabilities, [ANSWERS].
        own: the best entities of the model's own prediction m_ENT, before the memory is mixed in, [ANSWERS].
        hops: for each hop one Retrieval for each topic; empty without a memory.
    """

    entities: np.ndarray
    scores: np.ndarray
    own: np.ndarray
    hops: list[list[Retrieval]]


# Compiled for what is equal for all checkpoints of a run; with the OpenQA itself JAX would keep every one that was ever opened.
@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def _run(model: LanguageModel, layout: Layout, text, hops: int, params, arrays):
    out = model(params, layout, [text], hops, arrays)
    table = params['entity_table'][: layout.num_entities]
    entities, scores = best_entities(out.prediction, table)
    _, own = jax.lax.top_k(out.own @ table.T, min(ANSWERS, len(table)))
    return scores, entities, own, out.hops


class OpenQA:
    """A language model with the memory it asks; open one with `OpenQA.open`.

    Attributes:
        prepared, vocab: the text that the memory is of.
        memory: Memory, or None for a model without one.
    """

    def __init__(self, prepared: Prepared, encoder, params, memory: Memory | None, stage):
        self.prepared, self.vocab, self.memory = prepared, prepared.vocab, memory
        self._model, self._tokenizer, self._special = stage.model(encoder), prepared.tokenizer, prepared.special
        mesh = make_mesh(1, local=True)
        self._layout = Layout(mesh, len(prepared.vocab))
        self._given = params_hash(params)  # what is computed from them may differ by a rounding on another device
        params = with_directions(params)
        self._params = params | {'entity_table': place(params['entity_table'], self._layout)}
        self._arrays = None if memory is None else stage.search_arrays(memory, mesh)
        self._own_text = stage.own_text
        self._settings = stage.k, memory is None

    @classmethod
    def open(cls, prepared_dir, model_dir, memory_dir: str = '', *, step: int | None = None, k: int | None = None) -> 'OpenQA':
        """Opens a model and the memory it is to ask.

        Args:
            prepared_dir: the folder whose text the memory holds: that of the model, or one that continues it.
            model_dir: workdir of a language model stage.
            memory_dir: a memory of the encoder that the model's memory was built with; '' for a model trained without one.
            step: checkpoint to use; the newest if None.
            k: entries kept per hop; as in training if None.

        Raises:
            CheckpointError: no language model, one of another vocabulary or of another encoder's memory, or a memory for a
                model that was trained without.
            MemoryFormatError: the memory is unfinished or damaged.
        """
        prepared = Prepared(prepared_dir)
        encoder, params, card, meta = model_config.load(model_dir, step)
        lineage = meta['lineage']
        if lineage['stage'] not in lm_stages.LANGUAGE_MODELS:
            raise CheckpointError(
                f'{model_dir} holds no language model: it is not the workdir of {" or ".join(lm_stages.LANGUAGE_MODELS)}'
            )
        lm_stages.check_reading(lineage, str(model_dir))
        model_config.check_vocabulary(card, prepared, model_dir, grown=bool(memory_dir))
        if bool(memory_dir) != bool(lineage['memory_hash']):
            trained = 'with a memory: give one' if lineage['memory_hash'] else 'without a memory: leave memory_dir empty'
            raise CheckpointError(f'{model_dir} was trained {trained}')
        memory = None
        if memory_dir:
            memory = Memory.open(memory_dir)
            memory.check_vocabulary(prepared.vocab)
            if lineage['memory_encoder'] != memory.manifest['hashes']['encoder']:
                raise CheckpointError(
                    f'{memory_dir} was built with another encoder than the memory that {model_dir} learnt to ask'
                )
            if lineage.get('own_text', True):
                covered(memory, prepared)  # or its passages are not those of the folder
            if lineage.get('entities_of_names') and len(memory.entity_rows):
                raise CheckpointError(
                    f'{memory_dir} has {len(memory.entity_rows)} entities that were injected into it, by what the text says of them; '
                    f'{model_dir} knows entities by their names (lm_names): ask a model that was trained without'
                )
            params = params | {'entity_table': with_new_entities(params['entity_table'], memory, prepared)}
        stage = lm_stages.LANGUAGE_MODELS[lineage['stage']].of_lineage({**lineage, 'memory_dir': memory_dir})
        if k is not None:
            stage = dataclasses.replace(stage, k=k)
        return cls(prepared, encoder, params, memory, stage)

    @functools.cached_property
    def identity(self) -> str:
        """12 hex digits of everything that answers depend on: parameters, memory, tokenizer, settings."""
        memory = '' if self.memory is None else self.memory.hash()
        parts = self._given, memory, self._tokenizer.to_str(), repr(self._model), *map(str, self._settings)
        return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:12]

    def records(self, questions: list[Question], batch_size: int = 64) -> list[dict]:
        """The record of each question, which may be of different numbers of hops; InputError names one that is too long."""
        out: list = [None] * len(questions)
        for hops in sorted({q.hops for q in questions}):
            members = [i for i, q in enumerate(questions) if q.hops == hops]
            for start in range(0, len(members), batch_size):
                chosen = members[start : start + batch_size]
                for i, answer in zip(chosen, self.answer([questions[i] for i in chosen], hops)):
                    out[i] = self.record(questions[i], answer) | {'by': self.identity}
        return out

    def answer(self, questions: list[Question], hops: int) -> list[Answer]:
        """Answers questions of one number of hops; InputError names one that is too long."""
        if not questions:
            return []
        inputs = [lm_markup.mark_open_question(self._tokenizer, q.text, q.topics, self._special) for q in questions]
        # Lengths and counts are rounded up, so that few shapes are compiled.
        length, topics = round_up(max(len(m.tokens) for m in inputs), 16), max(len(m.r1) for m in inputs)
        if length > self._model.encoder.max_length:
            worst = max(zip(inputs, questions), key=lambda pair: len(pair[0].tokens))[1]
            raise InputError(
                f"question {worst.id} is longer than the encoder's {self._model.encoder.max_length} tokens: {worst.text!r}"
            )
        size = 1 << (len(questions) - 1).bit_length()
        start, r1 = np.zeros((2, size, topics), np.int32)
        r2, used = np.ones(size, np.int32), np.zeros((size, topics), bool)
        for i, m in enumerate(inputs):
            start[i, : len(m.r1)], r1[i, : len(m.r1)], used[i, : len(m.r1)], r2[i] = m.starts, m.r1, True, m.r2
        tokens = batching.pad_tokens([m.tokens for m in inputs], size, length, self._special)
        text = dict(tokens=tokens, start=start, r1=r1, r2=r2, used=used)
        scores, entities, own, reads = jax.device_get(_run(self._model, self._layout, text, hops, self._params, self._arrays))
        return [
            Answer(
                entities[i],
                scores[i],
                own[i],
                [[self._retrieval(read, i * topics + t) for t in range(len(m.r1))] for read in reads],
            )
            for i, m in enumerate(inputs)
        ]

    def _retrieval(self, read, row):
        weights = np.exp(read.log_probs[row])
        found = np.flatnonzero(read.entries[row] >= 0)
        found = found[np.argsort(-weights[1:][found], kind='stable')]
        return Retrieval(
            float(weights[0]), self.memory.ids[read.entries[row][found]], weights[1:][found], read.targets[row][found]
        )

    def record(self, question: Question, answer: Answer, shown: int = 3) -> dict:
        """A question's answer and its trace as JSON values: what each hop retrieved, lambda, the model's own top answers.

        `found` is the key of the target of a hop's best entry, for one topic.
        """
        names, keys = self.vocab.names, self.vocab.keys
        trace = [
            [
                {
                    'mention': question.text[slice(*mention)],
                    'null': round(read.null, 6),
                    'found': keys[read.targets[0]] if len(read.targets) else None,
                    'entries': [
                        {**found, 'weight': round(float(weight), 6)}
                        for found, weight in zip(self._evidence(read.entries[:shown]), read.weights)
                    ],
                }
                for mention, read in zip(question.topics, reads)
            ]
            for reads in answer.hops
        ]
        return {
            'id': question.id,
            'question': marked(question),
            'answers': [
                {'entity': names[e], 'key': keys[e], 'weight': round(float(s), 6)}
                for e, s in zip(answer.entities, answer.scores)
            ],
            'own': [names[e] for e in answer.own],
            'trace': trace,
        }

    def _evidence(self, entries):
        if self._own_text:
            return evidence(self.prepared, self.memory, entries)
        rows, names = self.memory.rows(entries), self.vocab.names
        return [{'topic': names[int(self.memory.topic[row])], 'target': names[int(self.memory.target[row])]} for row in rows]


def marked(question: Question) -> str:
    """A question as its record has it: mentions in brackets, and after it the number of hops if that is not one."""
    text = bracketed(question)
    return text if question.hops == 1 else f'{text} ({question.hops} hops)'


def evaluate(model: OpenQA, questions: list[Question], records: list[dict], cases_path=None) -> dict:
    """Scores the records of questions, see `OpenQA.record`; answers that the vocabulary lacks count as answers that cannot be found.

    Returns:
        hits@{1,5,10}, and mrr@10 over the ANSWERS best; questions, those that have gold answers, and unscored, the others, which
        count nowhere; answerable: how many have an answer in the vocabulary, and answer_coverage, their share. With a memory:
        retrieval_accuracy, the share of topics whose best entry in the last hop has an answer as target. Of questions whose
        mentions' entities are known: memory_coverage, the share from one of which an answer can be reached in as many hops; of
        those of one hop, null_present and null_absent, the mean lambda of topics for which the memory has an entry (topic, answer),
        and has none.

    Raises:
        InputError: no question has gold answers.

    Right and wrong cases go to `cases_path`, as JSON lines, wrong ones first.
    """
    kept = [i for i, question in enumerate(questions) if question.answers or question.unknown_answers]
    unscored = len(questions) - len(kept)
    if not kept:
        raise InputError('no question has gold answers, so nothing can be scored')
    questions, records = [questions[i] for i in kept], [records[i] for i in kept]
    ids, names = model.vocab.id_of_key, model.vocab.names
    scored = [
        metrics.score(
            [ids[answer['key']] for answer in record['answers']],
            [answer['weight'] for answer in record['answers']],
            {*question.answers, *question.unknown_answers},
        )
        for question, record in zip(questions, records)
    ]
    if cases_path:
        cases = [
            {'right': one.rank == 1, 'gold': [*(names[e] for e in question.answers), *question.unknown_answers], **record}
            for question, record, one in zip(questions, records, scored)
        ]
        with atomic_path(cases_path) as path, open(path, 'w', encoding='utf-8') as file:
            for case in sorted(cases, key=lambda case: case['right']):
                file.write(json.dumps(case, ensure_ascii=False) + '\n')
    out = metrics.summarise(scored)
    del out['set_f1']
    out['mrr@10'] = out.pop('mrr')
    known = [bool(q.answers) for q in questions]
    out |= {'questions': len(questions), 'unscored': unscored}
    out |= {'answerable': sum(known), 'answer_coverage': float(np.mean(known))}
    if model.memory is None:
        return out
    graph = metrics.adjacency(model.memory.topic, model.memory.target, len(model.vocab))
    covered, right, null = [], [], {True: [], False: []}
    for question, record in zip(questions, records):
        right += [read['found'] is not None and ids[read['found']] in question.answers for read in record['trace'][-1]]
        topics = [e for e in question.entities if e >= 0]
        if topics:
            lead = metrics.reachable(graph, [question.answers], question.hops)[question.hops, :, 0]
            covered.append(bool(lead[topics].any()))
            for topic, read in zip(question.entities, record['trace'][0] if question.hops == 1 else []):
                if topic >= 0:
                    null[bool(lead[topic])].append(read['null'])
    out['retrieval_accuracy'] = float(np.mean(right))
    if covered:
        out['memory_coverage'] = float(np.mean(covered))
    for name, present in (('null_present', True), ('null_absent', False)):
        if null[present]:
            out[name] = float(np.mean(null[present]))
    return out


def _of_all(values: dict, path: str) -> dict:
    report = files.path(f'{path}.coverage.json')
    if not report.exists():
        return {}
    unmarked, scored = json.loads(report.read_text(encoding='utf-8'))['no_mention'], values['questions']
    return {'unmarked': unmarked, 'hits@1_of_all': values['hits@1'] * scored / (scored + unmarked)}


def evaluate_files(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str = '',
    questions: tuple[str, ...],
    output_dir: str,
    batch_size: int = 64,
    k: int | None = None,
    step: int | str | None = None,
    patience: float = 3600.0,
    show: int = 0,
    dry_run: bool = False,
) -> dict[str, dict]:
    """Answers files of open questions and scores them; several processes answer together, and the first one scores.

    Args:
        prepared_dir, model_dir, memory_dir, k: see `OpenQA.open`.
        questions: the files, see `corpus.questions`.
        output_dir: receives <file stem>.predictions.jsonl, with traces, <file stem>.cases.jsonl (wrong ones first) and metrics.json.
        step, patience: the checkpoint; the newest if None; or several, see `score_steps`.
        show: questions of each file, from its start, that are printed with their traces.

    Predictions that are there already, of the same questions, model, memory and settings, are scored and not made again.

    Raises:
        PredictionError: what is in `output_dir` is of other questions, or of another model, memory or setting.

    Returns:
        {file stem: metrics}, see `evaluate`. Of a file that `convert_questions` wrote also `unmarked`, the questions it left out
        because they mention nothing that is known, and `hits@1_of_all`, which counts these as wrong.
    """
    if isinstance(questions, str):
        raise InputError(f"questions: write a tuple, ('{questions}',)")
    paths = {pathlib.Path(path).stem: path for path in questions}
    if len(paths) < len(questions):
        raise InputError('questions: two files have the same name, so that their results would be one')

    def score(step, directory):
        model = OpenQA.open(prepared_dir, model_dir, memory_dir, step=step, k=k)
        sets = {name: read_questions(path, model.vocab) for name, path in paths.items()}
        if dry_run:
            for name, asked in sets.items():
                print(f'# {name}: {len(asked):,} questions')
            return {}
        return _score_files(model, sets, paths, directory, batch_size, show)

    return score_steps(score, model_dir, output_dir, step, patience, dry_run)


def _score_files(model, sets, paths, directory, batch_size, show) -> dict[str, dict]:
    answers = {name: directory / f'{name}.predictions.jsonl' for name in sets}
    for name, questions in sets.items():
        answer = functools.partial(model.records, batch_size=batch_size)
        write_predictions(answers[name], questions, model.identity, answer, asked=marked)
    # As in `run._score_sets`, the others wait for the scores.
    out = _scored(model, sets, paths, answers, directory, show) if distributed.is_primary() else {}
    distributed.barrier(f'{directory} is scored')
    return out


def _scored(model, sets, paths, answers, directory, show) -> dict[str, dict]:
    out = {}
    for name, questions in sets.items():
        records = read_predictions(answers[name])
        for question, record in zip(questions[:show], records):
            gold = [*(model.vocab.names[e] for e in question.answers), *question.unknown_answers]
            print(json.dumps(record | {'gold': gold}, ensure_ascii=False, indent=1))
        out[name] = evaluate(model, questions, records, directory / f'{name}.cases.jsonl')
        out[name] |= _of_all(out[name], paths[name])
    with atomic_path(directory / 'metrics.json') as path:
        path.write_text(json.dumps(out, indent=2))
    for name, values in out.items():
        shown = (f'{key} {value:.4f}' if isinstance(value, float) else f'{key} {value}' for key, value in values.items())
        print(f'{name}: {"  ".join(shown)}')
    return out
