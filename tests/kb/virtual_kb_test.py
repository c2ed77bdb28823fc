"""A trained knowledge base: what it answers, with what evidence, and what it does not open."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import bracketed
from opql_jax.data import markup
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained import trained_kb
from opql_jax.memory.format import Memory
from opql_jax.training import objectives
from opql_jax.training.checkpoints import CheckpointError

import tiny_training

K = 16


@pytest.fixture(scope='module')
def kb(world):
    return open_kb(world, k=K)


def questions_of(kb, hops, count=40):
    return kb.prepared.questions(f'{hops}-hop/dev')[:count]


def hops_of(kb, questions):
    """What each hop found, for each question."""
    return [answer.hops for answer in kb.answer(questions)]


# Answers.


class SlowFollower:
    """Relation following written out, a question at a time and without padding."""

    def __init__(self, world):
        self.kb = open_kb(world)
        self.memory = Memory.open(world / 'memory')
        self.relations = np.concatenate(self.memory.relation_shards).astype(np.float64)
        params = tiny_training.params_of(world / 'follow')
        self.table = params['entity_table'].astype(np.float64)
        self.w_q, self.w_k, self.w_t = (
            params[f'follower/{name}'].astype(np.float64) for name in ('w_q', 'w_k', 'w_t')
        )
        self.encode = jax.jit(
            tiny_training.encoder(vocab_size=self.kb.prepared.tokenizer.get_vocab_size()).apply
        )
        self.params = {'params': self.kb._params['encoder']}

    def relation(self, question):
        tokenizer, special = self.kb.prepared.tokenizer, self.kb.prepared.special
        (marked,) = markup.mark_questions(tokenizer, [question.text], [question.topic], special)
        one = [np.array([value]) for value in (marked.tokens, marked.r1, marked.r2)]
        return np.asarray(self.encode(self.params, *one))[0].astype(np.float64)

    def __call__(self, question, hops, k, exclude_topic):
        """[{entity: weight}] and [entries] of every hop."""
        asked, found, kept = self.relation(question), [], []
        topics = {question.topic_entity: 1.0}
        for hop in range(hops):
            centroid = sum(weight * self.table[entity] for entity, weight in topics.items())
            query = np.concatenate([centroid, asked @ self.w_t[hop]]) @ self.w_q
            scored = []
            for entry in np.flatnonzero(np.isin(self.memory.topic, list(topics))):
                topic = int(self.memory.topic[entry])
                key = np.concatenate([self.table[topic], self.relations[entry]]) @ self.w_k
                if not (exclude_topic and self.memory.target[entry] == question.topic_entity):
                    scored.append((-(query @ key + np.log(topics[topic])), entry))
            scored = sorted(scored)[:k]
            mass = np.exp(np.array([-score for score, _ in scored]) + scored[0][0])
            weights = {}
            for (_, entry), beta in zip(scored, mass / mass.sum()):
                target = int(self.memory.target[entry])
                weights[target] = weights.get(target, 0.0) + beta
            topics = weights
            found.append(topics)
            kept.append([entry for _, entry in scored])
        return found, kept


@pytest.mark.parametrize('exclude_topic', [True, False])
def test_answers_are_those_of_relation_following_written_out(world, kb, exclude_topic):
    slow, several = SlowFollower(world), 0
    questions = questions_of(kb, 2)
    kb = open_kb(world, k=K, exclude_topic=exclude_topic)
    for question, steps in list(zip(questions, hops_of(kb, questions)))[:15]:
        wanted, kept = slow(question, 2, K, exclude_topic)
        for step, weights, entries in zip(steps, wanted, kept):
            found = dict(zip(step.entities.tolist(), step.weights.tolist()))
            for entity in found.keys() | weights.keys():
                expected = pytest.approx(weights.get(entity, 0.0), abs=1e-4)
                assert found.get(entity, 0.0) == expected, bracketed(question)
            # Two entries at the border may be as good.
            assert len(set(step.entries.tolist()) ^ set(entries)) <= 2
            several += step.weights[0] < 0.9
    assert several > 3  # not all of them are decided by one entry


def test_the_batch_a_question_is_in_does_not_change_its_answers(kb, monkeypatch):
    prepared = kb.prepared
    questions = [q for part in ('dev', 'train') for q in prepared.questions(f'2-hop/{part}')][:70]
    texts, topics = ([getattr(q, name) for q in questions] for name in ('text', 'topic'))
    marked = markup.mark_questions(prepared.tokenizer, texts, topics, prepared.special)
    lengths = [len(one.tokens) for one in marked]
    assert min(lengths) <= 16 < max(lengths)  # padded to 16 alone, to 32 with others
    batches = {}
    for size in (1, 7, 64):
        monkeypatch.setattr(trained_kb, '_BATCH', size)
        batches[size] = kb.answer(questions)
    for other in (batches[7], batches[64]):
        for alone, together in zip(batches[1], other, strict=True):
            assert_same_ranking(alone, together)
            assert set(alone.hops[0].entities.tolist()) == set(together.hops[0].entities.tolist())


def assert_same_ranking(a, b, tolerance=1e-5):
    """The same answers in one order, but for neighbours whose weights are equal up to rounding."""
    assert a.weights == pytest.approx(b.weights, abs=tolerance)
    weights = dict(zip(b.entities.tolist(), b.weights))
    for entity, weight in zip(a.entities.tolist(), a.weights):
        assert weights.get(entity, b.weights[-1]) == pytest.approx(weight, abs=tolerance)


def test_more_hops_than_the_follower_has_are_refused(kb):
    with pytest.raises(ValueError, match=r'hops=4 is not in 1\.\.3'):
        kb.answer([dataclasses.replace(questions_of(kb, 3, 1)[0], hops=4)])


# Asking.


def test_asking_is_following_the_question_in_brackets_and_says_the_paths(kb):
    question = questions_of(kb, 2, 1)[0]
    asked, answered = kb.ask(bracketed(question), 2), kb.answer([question])[0]
    for a, b in zip([asked, *asked.hops], [answered, *answered.hops], strict=True):
        np.testing.assert_array_equal(a.entities, b.entities)
        np.testing.assert_array_equal(a.weights, b.weights)
    for member in asked:
        ((first, last),) = asked.paths(member.id, most=1)
        assert first.topic == kb.vocab.names[question.topic_entity]
        assert (first.target, last.target) == (last.topic, member.name)


@pytest.mark.parametrize(
    'text, said',
    [
        ('who met [ß]', "unknown entity 'ß'$"),
        ('who met {}?', 'no topic in brackets'),
        ('who met [{}\t]', r"unknown entity '(.*)\\t'; did you mean '\1'"),
        ('who met [{}', 'a bracket without its partner'),
        ('who met []', 'topic in brackets is empty'),
        ('', 'the question: expected a string that is not blank'),
        ('who met [{}] \udcff', 'the question: code point .* surrogate pair'),
        ('who met [{}]' + ' and' * 250_000, r'has 1,000,0\d\d characters: ask it in .* 2,000$'),
        ('who met [{}]' + ' and' * 400, "4.. tokens, more than the encoder's 144: 'who .{,100}$"),
    ],
)
def test_a_text_that_is_no_question_is_refused(kb, text, said):
    with pytest.raises(InputError, match=said):
        kb.ask(text.format(max(kb.vocab.names, key=len)))


# Evidence.


@pytest.fixture(scope='module')
def averaged(world, tmp_path_factory):
    """The same knowledge base with one entry for each pair."""
    root, text = tmp_path_factory.mktemp('averaged'), world / 'text'
    memory = tiny_training.write_memory(text, world / 'align', root / 'memory', mentions='average')
    stage = objectives.Follow(memory_dir=str(memory))
    follow = tiny_training.write_untrained(text, root / 'follow', stage, spread=8.0)
    return open_kb(root, text=text, model=follow, memory=memory)


@pytest.mark.parametrize('memory', ['kb', 'averaged'])
def test_the_sentence_of_every_kept_entry_holds_both_mentions(memory, request):
    kb = request.getfixturevalue(memory)
    found = hops_of(kb, questions_of(kb, 3))
    kept = {int(entry) for steps in found for step in steps for entry in step.entries}
    assert len(kept) > 150
    documents = {document.title: document for document in Synthetic(num_documents=60).read(None)[1]}
    for entry, fact in zip(sorted(kept), kb.evidence(sorted(kept)), strict=True):
        row = kb.memory.provenance([entry])[0]
        text = kb.prepared.passages['text'][row['passage']].as_py()
        for side, entities in (('topic', kb.memory.topic), ('target', kb.memory.target)):
            surface = text[slice(*row[side])]
            assert kb.vocab.get(surface) == entities[entry]
            assert surface in fact['sentence'] and fact[side] == kb.vocab.names[entities[entry]]
        # In the words of the corpus, but for a title that was put before.
        document, sentence = documents[fact['title']], fact['sentence']
        told = sentence.removeprefix(f'{fact["title"]}: ')
        assert sentence == told or fact['title'] in (fact['topic'], fact['target'])
        linked = {document.title_entity} if sentence != told else set()
        for part in told.split(' … '):
            place = document.text.find(part)
            assert place >= 0, part
            end = place + len(part)
            linked |= {m.entity for m in document.mentions if place <= m.start and m.end <= end}
        assert {kb.vocab.keys[kb.vocab.get(fact[side])] for side in ('topic', 'target')} <= linked


# Opening.


def test_the_identity_tells_models_and_memories_apart(world, kb, averaged, tmp_path):
    stage = objectives.Follow(memory_dir=str(world / 'memory'))
    other = tiny_training.write_untrained(world / 'text', tmp_path / 'other', stage, seed=1)
    opened = lambda **options: open_kb(world, **{'k': K} | options)
    others = opened(model=other), averaged, opened(k=K + 1), opened(exclude_topic=False)
    identities = [one.identity for one in (kb, *others)]
    assert open_kb(world, k=K).identity == kb.identity and len(set(identities)) == 5


def test_a_folder_without_a_manifest_says_what_to_do_and_opens_by_names(world, kb, tmp_path):
    copy = shutil.copytree(world, tmp_path / 'kb')
    (copy / 'manifest.json').unlink()
    said = (
        r'kb/manifest\.json: no such file, so .*train the model .* or name TEXT, MODEL and MEMORY'
    )
    with pytest.raises(InputError, match=said):
        open_kb(copy)
    assert open_kb(copy, text='text', model='follow', memory='memory', k=K).identity == kb.identity


def test_another_vocabulary_is_refused_for_model_and_memory(world, tmp_path):
    other = tiny_training.write_prepared(tmp_path / 'prepared')
    said = f'{world}/follow was trained with an entity vocabulary .* but {other} has 40'
    with pytest.raises(CheckpointError, match=said):
        open_kb(world, text=other)
    model = tiny_training.write_untrained(other, tmp_path / 'model')
    memory = tiny_training.write_memory(other, model, tmp_path / 'memory')
    with pytest.raises(InputError, match=f'{memory} was built with the vocabulary'):
        open_kb(world, memory=memory)


def test_an_entity_table_that_is_not_finite_is_refused(kb):
    table = np.array(kb.entity_table)
    table[7, 1] = np.nan
    said = 'row 7 of the entity table of the model has a number that is not finite'
    with pytest.raises(CheckpointError, match=said):
        trained_kb.with_new_entities(table, kb.memory, kb.prepared)


def test_weights_that_are_not_finite_are_no_answer(kb):
    params = jax.tree.map(np.array, kb._params)
    params['follower']['w_t'][0, 0, 0] = np.nan
    answerer = kb._answerer
    broken = trained_kb.TrainedKB(
        kb.folder, kb.prepared, answerer._encoder, params, kb.memory, answerer._objective
    )
    with pytest.raises(InputError, match='the model gives weights that are not finite'):
        broken.answer(questions_of(kb, 1)[:1])


# Updates.
