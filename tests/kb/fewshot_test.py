"""Few-shot accuracy of relation embeddings, against loops, and of sentences in FewRel's form."""

import functools
import json

import numpy as np
import one_marked
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import markup
from opql_jax.data.tokenizer import load_tokenizer, special_ids
from opql_jax.datasets.labelled_sentences import read_labelled
from opql_jax.kb.trained import fewshot
from opql_jax.kb.trained.fewshot import episode_accuracies, evaluate_fewshot
from opql_jax.models import released
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.training import model_config

import tiny_text_encoder
import tiny_training


def slow_accuracies(vectors, groups, ways, shots, num_episodes, seed):
    rng, out = np.random.default_rng(seed), []
    used = sorted(i for texts in groups for same in texts for i in same)
    vectors = np.asarray(vectors, np.float64)
    vectors = vectors - np.mean([vectors[i] for i in used], axis=0)
    cosine = lambda a, b: a @ b / np.sqrt((a @ a) * (b @ b))
    for _ in range(num_episodes):
        chosen = rng.choice(len(groups), ways, replace=False)
        drawn = [fewshot.draw(groups[relation], shots + 1, rng) for relation in chosen]
        right = 0
        for own, (query, *_) in enumerate(drawn):
            similar = lambda other, to=vectors[query]: cosine(to, vectors[other])
            means = [np.mean(list(map(similar, support))) for _, *support in drawn]
            right += means[own] > max(m for other, m in enumerate(means) if other != own)
        out.append(right / ways)
    return np.array(out)


@pytest.mark.parametrize('shots', [1, 2])
def test_scores_are_those_of_a_loop_over_queries(shots):
    rng = np.random.default_rng(shots)
    texts = lambda r: [np.array([3 * r, 20 + r]), np.array([3 * r + 1]), np.array([3 * r + 2])]
    groups = list(map(texts, range(6)))
    vectors = rng.normal(size=(36, 4)) * rng.uniform(1, 9, (36, 1)) + rng.normal(size=4)
    vectors = vectors.astype(np.float32)
    vectors[-3:] = 1e3  # those are of no relation
    found = episode_accuracies(vectors, groups, 4, shots, 40, 7)
    np.testing.assert_allclose(found, slow_accuracies(vectors, groups, 4, shots, 40, 7), atol=1e-12)
    np.testing.assert_array_equal(found, episode_accuracies(vectors + 5, groups, 4, shots, 40, 7))
    assert 0.1 < found.mean() < 0.6


def test_a_query_never_has_a_text_of_its_support():
    groups = [[np.array([0, 1, 2]), np.array([3])], [np.array([4]), np.array([5, 6])]]
    texts = np.array([0, 0, 0, 1, 2, 3, 3])
    rng = np.random.default_rng(0)
    drawn = [texts[fewshot.draw(relation, 2, rng)] for relation in groups for _ in range(50)]
    assert all(query != support for query, support in drawn)


SENTENCES = {
    'wrote': 'long ago ann wrote emma/once again jo wrote lucy/later on max wrote the sea',
    'near': 'the town rome near lake como/a village bonn near the river/old city york near a mill',
    'born': 'the poet ann born first/the king jo born never',
    'alone': 'the king max sang songs',
}
SENTENCES = {relation: texts.split('/') for relation, texts in SENTENCES.items()}
LEFT_OUT = {'the mentions overlap': 1, 'of a relation with fewer than 2 texts': 1}


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """(workdir, file): a sentence is there twice, and in one the mentions overlap."""
    root = tmp_path_factory.mktemp('fewshot')
    prepared = tiny_training.write_prepared(root / 'prepared')
    model = tiny_training.write_untrained(prepared, root / 'model')
    item = lambda text: _item(text.split(), [2], [len(text.split()) - 1])
    items = {relation: list(map(item, texts)) for relation, texts in SENTENCES.items()}
    items['near'].append(_item(SENTENCES['near'][1].split(), [2], [4]))
    items['born'].append(_item('a b c'.split(), [0, 1], [1]))
    (root / 'val.json').write_text(json.dumps(items))
    return model, root / 'val.json'


def _item(tokens, head, tail):
    return {'tokens': tokens, 'h': ['', '', [head]], 't': ['', '', [tail]]}


def run(folders, output, **options):
    model, file = folders
    folders = dict(sentences=str(file), model_dir=str(model), output_dir=str(output))
    return evaluate_fewshot(**folders | dict(ways=3, episodes=50) | options)


def test_what_was_left_out_is_counted(folders, tmp_path, capsys):
    out = run(folders, tmp_path)
    assert (out['relations'], out['sentences'], out['left_out']) == (3, 9, LEFT_OUT)
    assert json.loads((tmp_path / 'metrics.json').read_text()) == out
    said = capsys.readouterr().out
    assert f'accuracy {out["accuracy"]:.4f} +- {out["standard_error"]:.4f}' in said


@pytest.fixture
def seen(monkeypatch):
    vectors = []
    score = lambda found, *_: vectors.extend(found) or np.zeros(2)
    monkeypatch.setattr(fewshot, 'episode_accuracies', score)
    return vectors


@pytest.mark.parametrize('embedding', fewshot.EMBEDDINGS[1:])
def test_embeddings_are_those_of_sentences_one_at_a_time(folders, tmp_path, seen, embedding):
    run(folders, tmp_path, embedding=embedding)
    encoder, params, _, _ = model_config.load(folders[0])
    tokenizer = load_tokenizer(folders[0])
    special, masked = special_ids(tokenizer), embedding.endswith('masked')
    apply = functools.partial(encoder.apply, {'params': params['encoder']})
    for (text, *pair, _), found in zip(read_labelled(folders[1])[0], seen, strict=True):
        passage = markup.tokenise_pair(tokenizer, text, *pair)
        topic = passage.entities.tolist().index(0)
        marked = one_marked.mark_pair(passage, topic, 1 - topic, special, 0, masked)
        if embedding.startswith('relation'):
            (expected,) = apply(marked.tokens[None], np.array([marked.r1]), np.array([marked.r2]))
        else:
            plain = np.array([special.cls, *passage.tokens, special.sep])
            tokens = marked.tokens if masked else plain
            (states,) = apply(tokens[None], method=encoder.hidden)
            expected = np.asarray(states, np.float64).mean(0)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_scored_is_refused(folders, tmp_path):
    for options, said in (
        (dict(shots=2, ways=3), 'with 3 different texts as ways; there are 2'),
        (dict(embedding='sum'), "give one of 'pair', 'relation', 'relation masked', 'mean'"),
        (dict(model_dir='nowhere'), 'nowhere/model.json: no such file'),
        (dict(relations=('near', 'far', 'under')), 'relations: .*has no sentence of far, under'),
    ):
        with pytest.raises(InputError, match=said):
            run(folders, tmp_path / 'out', **options)
        assert not (tmp_path / 'out').exists()


def test_pairs_are_encoded_by_a_released_encoder(folders, tmp_path, seen):
    encoder = tiny_text_encoder.make()
    parts = encoder.module, encoder.params, encoder.tokenizer.to_str()
    released.write(tmp_path / 'encoder', *parts, '# Tiny\n')
    file = tmp_path / 'long.json'
    items = json.loads(folders[1].read_text())
    for first, last in (('ann', 'jo'), ('jo', 'max')):
        items['born'].append(_item([first, *['saw'] * 200, last], [0], [201]))
    file.write_text(json.dumps(items))
    out = run((tmp_path / 'encoder', file), tmp_path / 'out', embedding='pair')
    assert out['left_out'] == LEFT_OUT
    assert (out['embedding'], out['sentences']) == ('pair', 11)
    texts, topics, targets, _ = zip(*read_labelled(file)[0])
    expected = TextEncoder.load(tmp_path / 'encoder').encode_pairs(texts, topics, targets)
    np.testing.assert_array_equal(seen, expected)
