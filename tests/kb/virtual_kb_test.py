"""A trained knowledge base: what it answers, with what evidence, and what it does not open."""

import shutil

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import bracketed
from opql_jax.data import markup
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.kb.open_kb import open_kb
from opql_jax.memory.format import Memory
from opql_jax.models.follower import Follower
from opql_jax.training import model_config, objectives
from opql_jax.training.progress import TrainingError

import tiny_training

K = 16


@pytest.fixture(scope='module')
def kb(world):
    return open_kb(world, k=K)


def questions_of(kb, hops, count=40):
    return kb.prepared.questions(f'{hops}-hop/dev')[:count]


def hops_of(kb, questions):
    return [answer.hops for answer in kb.answer(questions)]


@pytest.mark.parametrize('exclude_topic', [True, False])
def test_answers_are_those_of_the_follower_to_each_question_alone(world, exclude_topic):
    kb, several = open_kb(world, k=K, exclude_topic=exclude_topic), 0
    encoder, params, _, _ = model_config.load(world / 'follow')
    prepared, memory, questions = kb.prepared, Memory.open(world / 'memory'), questions_of(kb, 2)
    follower, arrays = Follower(encoder.relation_dim, encoder.entity_dim), memory.arrays()
    given = dict(memory=arrays, entity_table=params['entity_table'], k=K)
    lengths = set()
    for question, steps in list(zip(questions, hops_of(kb, questions)))[:15]:
        text = [question.text], [question.topic]
        (marked,) = markup.mark_questions(prepared.tokenizer, *text, prepared.special)
        one = [np.array([value]) for value in (marked.tokens, marked.r1, marked.r2)]
        relations = encoder.apply({'params': params['encoder']}, *one)
        of = {'params': params['follower']}, relations, np.array([question.topic_entity])
        wanted = follower.apply(*of, hops=2, exclude_topic=exclude_topic, **given)
        lengths.add(len(marked.tokens))
        for step, hop in zip(steps, wanted, strict=True):
            found = dict(zip(step.entities.tolist(), step.weights.tolist()))
            weights = dict(zip(hop.entities[0].tolist(), hop.weights[0].tolist()))
            for entity in found.keys() | weights.keys() - {-1}:
                expected = pytest.approx(weights.get(entity, 0.0), abs=1e-4)
                assert found.get(entity, 0.0) == expected, bracketed(question)
            # Two entries at the border may be as good.
            rows = hop.entry_rows[0][hop.entry_rows[0] >= 0]
            assert len({*step.entries.tolist()} ^ {*memory.ids[rows].tolist()}) <= 2
            several += step.weights[0] < 0.9
    assert several > 3  # not all of them are decided by one entry
    assert min(lengths) <= 16 < max(lengths)  # some are padded otherwise alone


@pytest.mark.parametrize('option', [{'filter': False}, {'weigh_topics': False}], ids=str)
def test_an_ablated_follower_answers_as_it_was_trained(world, tmp_path, option):
    own = dict(memory_dir=str(world / 'memory'), splits=('2-hop/train',), questions=8, k=8)
    ablated = objectives.Follow(**own, **option)
    write = tiny_training.write_untrained
    follower = write(world / 'text', tmp_path / 'follow', ablated, spread=8.0)
    kb = open_kb(world, model=follower)
    has_filter = option.get('filter', True)
    questions = kb.prepared.questions('2-hop/dev')[:10]
    first_hops = lambda kb: [answer.hops[0].entries.tolist() for answer in kb.answer(questions)]
    for question, answer in zip(questions, kb.answer(questions)):
        assert len(answer.entities) and question.topic_entity not in answer.entities
    filtered = open_kb(world, model=follower, filter=True)
    assert (filtered.identity == kb.identity) == has_filter
    assert (first_hops(filtered) == first_hops(kb)) == has_filter
    with pytest.raises(TrainingError, match=f'{next(iter(option))} was'):
        tiny_training.run(world / 'text', follower, objectives.Follow(**own))


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


def test_a_text_that_is_no_question_is_refused(kb):
    for text, said in (
        ('who met {}?', 'no topic in brackets'),
        ('who met [{}\t]', r"unknown entity '(.*)\\t'; did you mean '\1'"),
        ('who met [{}] \udcff', 'the question: code point .* surrogate pair'),
        ('who met [{}]' + ' and' * 400, "4.. tokens, more than the encoder's 144: 'who .{,100}$"),
    ):
        with pytest.raises(InputError, match=said):
            kb.ask(text.format(max(kb.vocab.names, key=len)))


def test_the_sentence_of_every_kept_entry_holds_both_mentions(kb):
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
        told = fact['sentence'].removeprefix(f'{fact["title"]}: ')
        assert told == fact['sentence'] or fact['title'] in (fact['topic'], fact['target'])
        assert all(part in documents[fact['title']].text for part in told.split(' … '))


def test_a_folder_without_a_manifest_says_what_to_do_and_opens_by_names(world, kb, tmp_path):
    copy = shutil.copytree(world, tmp_path / 'kb')
    (copy / 'manifest.json').unlink()
    with pytest.raises(InputError, match='no such file, so .* or name TEXT, MODEL and MEMORY'):
        open_kb(copy)
    assert open_kb(copy, text='text', model='follow', memory='memory', k=K).identity == kb.identity
