"""Few-shot evaluation of relation embeddings, over an encoder of a few hundred random weights, and
over MiniLM; of handwritten sentences in FewRel's form.
"""

import functools
import json

import jax
import numpy as np
import one_marked
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import batching
from opql_jax.datasets.labelled_sentences import read_labelled
from opql_jax.kb.trained import fewshot
from opql_jax.kb.trained.fewshot import evaluate_fewshot
from opql_jax.models import released
from opql_jax.models.text_encoder import TextEncoder

import tiny_text_encoder
import tiny_training

# {relation: sentences}; the head is the third token, the tail the last.
SENTENCES = {
    'wrote': ['long ago ann wrote emma', 'once again jo wrote lucy', 'later on max wrote the sea'],
    'near': [
        'the town rome near lake como',
        'a village bonn near the river',
        'old city york near the mill',
    ],
    'born': ['the poet ann born first', 'the king jo born never'],
    'alone': ['the king max sang songs'],
}


LEFT_OUT = {'the mentions overlap': 1, 'of a relation with fewer than 2 texts': 1}


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """(workdir, file): the second sentence of 'near' is there twice and one of 'born' has
    overlapping mentions.
    """
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
    found = f'{out["accuracy"]:.4f} +- {out["standard_error"]:.4f}'
    assert said.startswith(f'3-way 1-shot accuracy {found} (50 episodes, 3 relations')
    assert 'left out: 1 sentences, the mentions overlap' in said


@pytest.mark.parametrize('masked', [False, True])
def test_sentences_are_marked_as_pairs_are(folders, masked):
    model, file = folders
    encoder, params, tokenizer = fewshot._open(str(model), None, 'relation')
    special = fewshot.tokenizer_lib.special_ids(tokenizer)
    passages = fewshot.tokenise(tokenizer, read_labelled(file)[0])
    embedding = 'relation masked' if masked else 'relation'
    found = fewshot.embed(encoder, params, passages, special, embedding)
    topics = [passage.entities.tolist().index(0) for passage in passages]
    pairs = zip(passages, topics)
    marked = [one_marked.mark_pair(one, i, 1 - i, special, 0, masked) for one, i in pairs]
    tokens = batching.pad_tokens([m.tokens for m in marked], len(marked), 32, special)
    r1, r2 = (np.array([getattr(m, name) for m in marked], np.int32) for name in ('r1', 'r2'))
    expected = jax.jit(encoder.apply)({'params': params}, tokens, r1, r2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('masked', [False, True])
def test_baselines_are_means_over_the_tokens(folders, masked):
    model, file = folders
    encoder, params, tokenizer = fewshot._open(str(model), None, 'mean')
    special = fewshot.tokenizer_lib.special_ids(tokenizer)
    passages = fewshot.tokenise(tokenizer, read_labelled(file)[0])
    found = fewshot.embed(encoder, params, passages, special, 'mean masked' if masked else 'mean')
    rows = [[special.cls, *passage.tokens, special.sep] for passage in passages]
    if masked:
        topics = [passage.entities.tolist().index(0) for passage in passages]
        pairs = zip(passages, topics)
        rows = [one_marked.mark_pair(one, i, 1 - i, special, 0, True).tokens for one, i in pairs]
    tokens = batching.pad_tokens(rows, len(rows), 32, special)
    hidden = jax.jit(functools.partial(encoder.apply, method=encoder.hidden))
    hidden = np.asarray(hidden({'params': params}, tokens), np.float64)
    for row, states, vector in zip(rows, hidden, found, strict=True):
        assert (special.ent in row) == masked
        np.testing.assert_allclose(vector, states[: len(row)].mean(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    'options, said',
    [
        (dict(ways=4), 'there are 3'),
        (dict(shots=2, ways=3), 'with 3 different texts as ways; there are 2'),
        (dict(shots=0), '0 shots'),
        (dict(embedding='sum'), "it is one of 'pair', 'relation', 'relation masked', 'mean'"),
        (dict(model_dir='nowhere'), 'nowhere/model.json: no such file'),
        (dict(model_dir='nowhere', embedding='mean'), 'nowhere/config.json: no such file'),
        (dict(model_dir='nowhere', embedding='pair'), 'nowhere is not a released encoder'),
        (dict(relations=('near', 'far', 'under')), 'relations: .*has no sentence of far, under'),
    ],
)
def test_what_cannot_be_scored_is_refused(folders, tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        run(folders, tmp_path / 'out', **options)
    assert not (tmp_path / 'out').exists()


def test_pairs_are_encoded_by_a_released_encoder(folders, tmp_path):
    encoder = tiny_text_encoder.make()
    parts = encoder.module, encoder.params, encoder.tokenizer.to_str()
    released.write(tmp_path / 'encoder', *parts, '# Tiny\n')
    file = tmp_path / 'long.json'
    items = json.loads(folders[1].read_text())
    for first, last in (('ann', 'jo'), ('jo', 'max')):
        items['born'].append(_item([first, *['saw'] * 200, last], [0], [201]))
    file.write_text(json.dumps(items))
    out = run((tmp_path / 'encoder', file), tmp_path / 'out', embedding='pair')
    # Of a long sentence what is around the pair is read.
    assert out['left_out'] == LEFT_OUT
    assert (out['embedding'], out['sentences']) == ('pair', 11) and 0 <= out['accuracy'] <= 1
    found = read_labelled(file)[0]
    model = fewshot._model(str(tmp_path / 'encoder'), None, 'pair')
    texts, topics, targets, _ = zip(*found)
    expected = TextEncoder.load(tmp_path / 'encoder').encode_pairs(texts, topics, targets)
    np.testing.assert_array_equal(model.embed(found), expected)
