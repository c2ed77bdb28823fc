"""Text, pairs and folders added to a memory in use: what is found then, and what is refused."""

import collections
import functools
import itertools
import math
import pathlib
import shutil

import jax
import numpy as np
import one_marked
import pytest

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.kb import new_entities, update_memory
from opql_jax.kb.update_memory import Selection, compact, delete, inject
from opql_jax.memory.format import Memory
from opql_jax.models.bulk_encoding import pair_encoder
from opql_jax.training import model_config
from opql_jax.training.checkpoints import CheckpointError

import records
import tiny_training


def open_kb(world, memory, text='extended'):
    return opql_jax.open(world, text=text, memory=memory)


def add(world, memory, text='extended', **options):
    inject(str(world / text), str(world / 'align'), str(memory), **options)


def extend(root, name, base, documents, entities=()):
    """Prepares a folder that continues another with (id, title, text), and names of entities."""
    rows = [dict(zip(('id', 'title', 'text'), document)) for document in documents]
    texts = records.write(root / f'{name}.jsonl', rows)
    names = records.write(root / f'{name}.names', [{'id': entity} for entity in entities])
    reader = JsonLines(str(texts), entities=str(names) if entities else None)
    prepare(kb=str(root), text=name, reader=reader, extends=str(base))
    return root / name


def facts(kb, name):
    (hop,) = kb.ask(f'who directed [{name}]').hops
    return {fact['target']: fact['sentence'] for fact in kb.evidence(hop.entries)}


@pytest.fixture(scope='module')
def world(world, tmp_path_factory):
    return shutil.copytree(world, tmp_path_factory.mktemp('update') / 'kb')


@pytest.fixture(scope='module')
def extended(world):
    """The prepared folder with new text about two films, and the person who made one of them."""
    old = Prepared(world / 'text')
    degree = np.diff(Memory.open(world / 'memory').offsets)
    person = old.vocab.names[np.flatnonzero(degree == degree[degree > 0].min())[0]]
    shown = f'Zorblax was directed by {person}. It was shown twice.'
    texts = {'Zorblax': shown, 'Quonk': 'Quonk came after Zorblax.', 'Silent': 'Nobody says more.'}
    new = [(f'of {name}', name, text) for name, text in texts.items()]
    return Prepared(extend(world, 'extended', old.directory, new)), person


@pytest.fixture
def memory(world, tmp_path):
    return shutil.copytree(world / 'memory', tmp_path / 'memory')


def answers(kb):
    """Answers to old questions of two hops: {question: [(entities, weights, entries)] by hop}."""
    questions = kb.prepared.questions('2-hop/dev')
    return {
        question.id: [(s.entities.tolist(), s.weights.tolist(), s.entries.tolist()) for s in steps]
        for question, steps in zip(questions, (answer.hops for answer in kb.answer(questions)))
    }


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for question, steps in wanted.items():
        for (entities, weights, entries), (e, w, n) in zip(found[question], steps, strict=True):
            assert (entities, entries) == (e, n) and weights == pytest.approx(w, abs=1e-5), question


def test_new_text_is_found_until_deleted_and_old_answers_stay(world, extended, memory):
    prepared, person = extended
    before = answers(open_kb(world, memory, 'text'))
    built = Memory.open(memory)

    add(world, memory)
    kb = open_kb(world, memory)
    said = f'Zorblax was directed by {person}.'
    assert facts(kb, 'Zorblax') == {person: said, 'Quonk': 'Quonk came after Zorblax.'}
    assert facts(kb, person)['Zorblax'] == said
    # Paths that leave the person have one more entry to choose from; others are as they were.
    after, known = answers(kb), prepared.vocab.id(person)
    topics = {q.id: q.topic_entity for q in prepared.questions('2-hop/dev')}
    same = [q for q, topic in topics.items() if known not in (topic, *before[q][0][0])]
    assert len(same) > 10
    assert_same({q: after[q] for q in same}, {q: before[q] for q in same})

    provenance = kb.memory.provenance([entry for entry in kb.memory.ids if entry >= len(built)])
    last = len(prepared.passages) - 1
    assert {row['passage'] for row in provenance} == {last - 2, last - 1}
    delete(str(prepared.directory), str(memory), Selection(documents=('of Zorblax',)))
    for merged in (False, True):
        if merged:
            compact(str(memory))
        kb = open_kb(world, memory)
        assert facts(kb, 'Zorblax') == {'Quonk': 'Quonk came after Zorblax.'}
        assert 'Zorblax' not in facts(kb, person)
        assert_same(answers(kb), before)
    assert len(kb.memory.manifest.segments) == 1


def test_new_embeddings_stand_to_the_others_as_their_mentions_do(world, extended, memory):
    prepared, _ = extended
    add(world, memory)
    table = open_kb(world, memory)._params['entity_table']
    encoder, params, card, _ = model_config.load(world / 'align')
    count = card.num_entities
    assert prepared.vocab.names[count:] == ['Zorblax', 'Quonk', 'Silent']
    np.testing.assert_array_equal(table[:count], params['entity_table'])
    places = collections.defaultdict(list)
    for passage in prepared.records.read(range(len(prepared.passages))):
        for i, entity in enumerate(passage.entities.tolist()):
            places[entity].append((passage, i))
    embed = jax.jit(functools.partial(encoder.apply, method=encoder.mentions))
    of_encoder, means = {'params': params['encoder']}, {}
    for entity, mentions in sorted(places.items()):
        vectors = []
        step = max(len(mentions) / new_entities.MENTIONS_PER_ENTITY, 1)
        for k in range(min(len(mentions), new_entities.MENTIONS_PER_ENTITY)):
            passage, i = mentions[math.ceil((k + 1) * step) - 1]
            m = one_marked.mask_mention(passage, i, prepared.special)
            tokens = np.pad(m.tokens, (0, 64 - len(m.tokens)))
            vectors.append(embed(of_encoder, tokens[None], np.array([[m.position]]))[0, 0])
        means[entity] = np.mean(np.asarray(vectors, np.float64), axis=0)
    old = [entity for entity in means if entity < count]
    assert max(map(len, places.values())) > new_entities.MENTIONS_PER_ENTITY
    v = np.array([means[entity] for entity in old])
    e = np.asarray(params['entity_table'], np.float64)[old]
    apart = (v - v.mean(0)).reshape(-1, 1)
    factor = np.linalg.lstsq(apart, (e - e.mean(0)).reshape(-1), rcond=None)[0][0]
    for entity in range(count, len(prepared.vocab)):
        wanted = e.mean(0) + max(factor, 0) * (means[entity] - v.mean(0))
        np.testing.assert_allclose(table[entity], wanted, atol=1e-5)


def best(prepared, keep):
    """Undirected title pairs with their mutual information, best first: [(pmi, low, high)]."""
    single, together = collections.Counter(), collections.Counter()
    for row in prepared.passages['mentions'].to_pylist():
        entities = sorted({m['entity'] for m in row})
        single.update(entities)
        together.update((x, y) for i, x in enumerate(entities) for y in entities[i + 1 :])
    ends = (prepared.pairs[side][prepared.pairs['is_title']] for side in ('topic', 'target'))
    title = {tuple(sorted(pair)) for pair in zip(*(end.tolist() for end in ends))}
    n = len(prepared.passages)
    scored = [
        (-math.log(c * n / (single[x] * single[y])), x, y)
        for (x, y), c in together.items()
        if (x, y) in title and keep(c)
    ]
    return [(x, y) for _, x, y in sorted((round(s, 9), x, y) for s, x, y in scored)]


def held(memory):
    return set(zip(memory.topic.tolist(), memory.target.tolist()))


@pytest.mark.parametrize('mentions', ['all', 'average'])
def test_the_best_pairs_of_question_topics_are_added_to_a_memory(world, tmp_path, mentions):
    prepared, memory = Prepared(world / 'text'), tmp_path / 'memory'
    options = dict(max_pairs=40, min_count=2, mentions=mentions)
    tiny_training.write_memory(world / 'text', world / 'align', memory, **options)
    both = lambda pairs: {(x, y) for x, y in pairs} | {(y, x) for x, y in pairs}
    had = both(best(prepared, lambda c: c >= 2)[:40])
    assert held(Memory.open(memory)) == had and len(had) == 80

    topics = {q.topic_entity for q in prepared.questions('1-hop/test')} - {-1}
    ranked, wanted = best(prepared, lambda c: True), set()
    for topic in topics:
        wanted |= both([pair for pair in ranked if topic in pair][:3])
    built = len(Memory.open(memory))
    for _ in range(2):  # again changes nothing
        add(world, memory, 'text', questions=('1-hop/test',), pairs_per_entity=3)
        changed = Memory.open(memory)
        assert held(changed) == had | wanted and wanted - had
        new = np.flatnonzero(changed.ids >= built)
        added = list(zip(changed.topic[new].tolist(), changed.target[new].tolist()))
        assert set(added) == wanted - had
        assert mentions == 'all' or len(added) == len(set(added))
        assert len(changed.manifest.segments) == 2


def test_folders_that_do_not_belong_together_are_refused(world, extended, memory, tmp_path):
    said = r'embeddings of 0 more, but .* has \d+: inject its text'
    with pytest.raises(CheckpointError, match=said):
        open_kb(world, memory)
    with pytest.raises(CheckpointError, match='use the prepared folder it was trained on'):
        tiny_training.write_memory(world / 'extended', world / 'align', tmp_path / 'new')
    other = tiny_training.write_untrained(world / 'text', tmp_path / 'other_model', seed=1)
    with pytest.raises(InputError, match='was built with the encoder'):
        inject(str(world / 'extended'), str(other), str(memory))
    add(world, memory)
    with pytest.raises(InputError, match='was built with the vocabulary'):
        open_kb(world, memory, 'text')
    names, text = ('Zorblax', 'Quonk', 'Silent'), 'Zorblax saw Quonk and Silent.'
    other = extend(tmp_path, 'other', world / 'text', [('x', 'Zorblax', text)], names)
    assert Prepared(other).vocab.hash() == extended[0].vocab.hash()
    forget = lambda _, memory, text: delete(str(text), str(memory), Selection(documents=('x',)))
    for use in (open_kb, add, forget):
        with pytest.raises(InputError, match='is a memory of other text than'):
            use(world, memory, other)


def test_of_two_injections_at_once_one_is_refused(world, memory, tmp_path, monkeypatch):
    known = Prepared(world / 'text').vocab.names[:4]
    met = lambda id, a, b: [(id, known[a], f'{known[a]} met {known[b]} once.')]
    first = extend(tmp_path, 'first', world / 'text', met('a1', 0, 1))
    second = extend(tmp_path, 'second', first, met('a2', 2, 3))

    def overtaken(*arguments):
        monkeypatch.undo()
        add(world, memory, second)
        return pair_encoder(*arguments)

    monkeypatch.setattr(update_memory, 'pair_encoder', overtaken)
    with pytest.raises(InputError, match='was changed meanwhile: run the injection again'):
        add(world, memory, first)
    state = Memory.open(memory)
    assert state.manifest.covers.passages == len(Prepared(second).passages)
    add(world, memory, second)
    said = r'the memory has \d+ passages, the folder \d+: give the one injected last'
    with pytest.raises(InputError, match=said):
        add(world, memory, first)
    assert Memory.open(memory).hash() == state.hash()


def test_only_injections_into_the_memory_that_answers_move_the_text_on(world, tmp_path):
    kb = pathlib.Path(shutil.copytree(world, tmp_path / 'kb'))
    shutil.copytree(kb / 'memory', kb / 'copy')
    names = Prepared(kb / 'text').vocab.names
    extend(kb, 'more', kb / 'text', [('m', names[0], f'{names[0]} met {names[1]} once.')])
    change = functools.partial(update_memory.update_memory, kb=str(kb))
    inject = functools.partial(change, action='inject', text='more')
    before = KBFolder(kb).read()
    inject(memory='copy')
    inject(dry_run=True)
    with pytest.raises(InputError, match='model.json: no such file'):
        inject(model='none')
    assert KBFolder(kb).read() == before
    inject()
    assert KBFolder(kb).read() == before | {'text': 'more'}
    change(action='delete', selection=Selection(documents=('m',)))
    assert len(opql_jax.open(kb).memory) == len(Memory.open(world / 'memory'))


@pytest.fixture(scope='module')
def other(world):
    """The prepared folder with other documents, some about an old entity, in which pairs recur."""
    known, people = Prepared(world / 'text').vocab.names[0], [f'Zed{i}' for i in range(9)]
    texts = [f'{a} met {b}. {b} met {known} and {a}.' for a, b in zip(people, people[1:])] * 2
    documents = [(f'z{i}', text.split()[0], text) for i, text in enumerate(texts)]
    return extend(world, 'other', world / 'text', documents)


def contents(memory):
    where = [item['passage'] for item in memory.provenance(memory.ids)]
    relations = np.asarray(memory.relations()).round(4).tolist()
    return sorted(zip(memory.topic.tolist(), memory.target.tolist(), where, relations))


def test_a_memory_of_new_text_is_what_injecting_it_less_the_old_gives(world, other, tmp_path):
    old = len(Prepared(world / 'text').passages)
    made = lambda name, text, **options: Memory.open(
        tiny_training.write_memory(
            text, world / 'align', tmp_path / name, pairs='all', min_count=1, **options
        )
    )
    one, all_of = made('new', other, only_new=True), made('all', world / 'text')
    add(world, all_of.directory, 'other')
    delete(str(other), str(all_of.directory), Selection(passages=tuple(range(old))))
    changed = Memory.open(all_of.directory)
    assert contents(one) == contents(changed) and len(one) > 9 * 8
    assert one.entity_rows.shape == (8, 8)  # of each title
    np.testing.assert_allclose(one.entity_rows, changed.entity_rows, atol=1e-5)
    one.verify()


def test_pairs_of_the_new_text_are_counted_in_it_alone(world, other):
    prepared, old = Prepared(other), len(Prepared(world / 'text').passages)
    seen = collections.defaultdict(set)
    for number, passage in enumerate(prepared.passages.to_pylist()):
        for a, b in itertools.permutations({m['entity'] for m in passage['mentions']}, 2):
            seen[a, b].add(number)
    often = {pair for pair, passages in seen.items() if len(passages) > 1}
    wanted = {pair for pair, passages in seen.items() if len([p for p in passages if p >= old]) > 1}
    rows = select_pair_rows(prepared, 'all', min_count=2, first_passage=old)
    topics, targets = (prepared.pairs[side][rows].tolist() for side in ('topic', 'target'))
    assert set(zip(topics, targets)) == wanted < often
    assert (prepared.pairs['passage'][rows] >= old).all()
