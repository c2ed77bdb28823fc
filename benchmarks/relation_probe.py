"""What the relations of a memory tell apart: how well one query does for all questions of a type, whatever their words.

python benchmarks/relation_probe.py --kb runs/metaqa --memories memory,memory-pretrained --json

For each type of 1-hop question a query [d_r] is fitted to training questions, so that the entries of a topic that state an answer score
above its others, and is then asked the dev questions. Questions none of whose answers stands in an entry of the topic are left out. A
follower that does as well loses little at one hop: what both miss, the vectors probably do not tell apart.
"""

import contextlib
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from command_line import make_parser, show

from opql_jax.corpus.questions import Question
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory
from opql_jax.models.text_encoder import unit

# Of a topic: few have thousands, which would decide how much memory this takes.
MOST_ENTRIES = 400


def main() -> None:
    """Prints a line for each memory and type of question, and one for all types together, beside the first memory."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', type=pathlib.Path, default='runs/metaqa', help='the folder of the recipe')
    parser.add_argument('--text', default='text', help='its prepared text')
    parser.add_argument('--memories', default='memory', help='its memories, the one to compare with first')
    parser.add_argument('--questions', type=int, default=1500, help='of each type and split, at most')
    options = parser.parse_args()
    prepared = Prepared(options.kb / options.text)
    splits = [prepared.questions(f'1-hop/{split}') for split in ('train', 'dev')]
    types = sorted({q.type for q in splits[0]} & {q.type for q in splits[1]})
    first: dict[str, float | None] = {}
    for name in options.memories.split(','):
        with contextlib.closing(Memory.open(options.kb / name)) as memory:
            right = {kind: probe(memory, *(_of_type(of, kind, options.questions) for of in splits)) for kind in types}
        for kind, hits in {**right, 'all': np.concatenate(list(right.values()))}.items():
            share = float(hits.mean()) if len(hits) else None
            baseline = first.setdefault(kind, share)
            ratio = share / baseline if share is not None and baseline else None
            show({'memory': name, 'type': kind, 'questions': len(hits), 'hits@1': share, 'over_first': ratio}, options.json)


def _of_type(questions: Sequence[Question], kind: str, most: int) -> list[Question]:
    of_kind = [q for q in questions if q.type == kind]
    return [of_kind[i] for i in np.random.default_rng(0).permutation(len(of_kind))[:most]]


def probe(memory: Memory, train: Sequence[Question], dev: Sequence[Question]) -> np.ndarray:
    """Fits one query to questions and asks it others.

    Args:
        memory: whose entries of a question's topic are asked.
        train: of one type.
        dev: of the same type.

    Returns:
        Whether the best entry states an answer: a bool for each of those of `dev` that an entry of the topic answers. There are none
        if no entry answers any of `train`, to which a query could be fitted.
    """
    relations, question, states = _entries(memory, train)
    if not len(relations):
        return np.zeros(0, bool)
    query = _fit(relations, question, states)
    relations, question, states = _entries(memory, dev)
    if not len(relations):
        return np.zeros(0, bool)
    scores = np.asarray(relations @ query)
    of_questions = np.split(np.arange(len(scores)), np.flatnonzero(np.diff(question)) + 1)
    return np.array([states[rows[np.argmax(scores[rows])]] for rows in of_questions])


def _entries(memory: Memory, questions: Sequence[Question]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of the topics of those that have an answer there: relations [n, d_r] of length 1, number of the question [n], is an answer [n]."""
    rows, states = [], []
    for question in questions:
        topic = question.entities[0]
        start, end = memory.offsets[topic], memory.offsets[topic + 1]
        here = np.arange(start, min(end, start + MOST_ENTRIES))
        is_answer = np.isin(memory.target[here], question.answers)
        if is_answer.any():
            rows.append(here)
            states.append(is_answer)
    if not rows:
        return np.zeros((0, 0), np.float32), np.zeros(0, int), np.zeros(0, bool)
    number = np.repeat(np.arange(len(rows)), [len(of) for of in rows])
    return np.asarray(unit(memory.relations(np.concatenate(rows)))), number, np.concatenate(states)


def _fit(relations: np.ndarray, question: np.ndarray, states: np.ndarray, steps: int = 300) -> np.ndarray:
    """The query [d_r] under which the entries that state answers have most of the softmax over those of their question."""
    count, optimizer = int(question[-1]) + 1, optax.adam(0.5)

    def loss(query):
        scores = relations @ query
        weights = jnp.exp(scores - jax.ops.segment_max(scores, question, count)[question])
        whole, right = (jax.ops.segment_sum(w, question, count) for w in (weights, jnp.where(states, weights, 0)))
        return jnp.mean(jnp.log(whole) - jnp.log(right + 1e-9)) + 1e-5 * query @ query

    def step(state, _):
        query, moments = state
        update, moments = optimizer.update(jax.grad(loss)(query), moments)
        return (query + update, moments), None

    query = jnp.zeros(relations.shape[1])
    (query, _), _ = jax.jit(lambda state: jax.lax.scan(step, state, length=steps))((query, optimizer.init(query)))
    return np.asarray(query)


if __name__ == '__main__':
    main()
