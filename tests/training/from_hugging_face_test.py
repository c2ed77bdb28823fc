"""Training starts from an MPNet, whose tokens are those of a RoBERTa, or a ModernBERT, over text prepared with its tokenizer."""

import functools

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from opql_jax.core.errors import InputError
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.kb.build_memory import build_memory
from opql_jax.memory.format import Memory
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.modern_bert import ModernEncoder
from opql_jax.training import objectives

import tiny_training

torch = pytest.importorskip('torch', reason='torch is not installed', exc_type=ImportError)
transformers = pytest.importorskip('transformers', reason='transformers is not installed', exc_type=ImportError)

ROBERTA = ['<s>', '<pad>', '</s>', '<unk>', *(f'madeupword000{i}' for i in range(3))]
BERT = ['<other>', '[PAD]', '[UNK]', '[CLS]', '[SEP]', *(f'[unused{i}]' for i in range(4))]
SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
FIELDS = dict(hidden_size=16, num_layers=2, num_heads=2, mlp_size=32, max_length=144, relation_dim=8, entity_dim=8)
# The names of the special tokens, what transformers makes the model of, and the encoder that it starts.
FAMILIES = {
    'MPNet': (
        ROBERTA,
        dict(max_position_embeddings=146, layer_norm_eps=1e-5),
        RelationEncoder,
        dict(layer_norm_epsilon=1e-5, relative_buckets=32),
    ),
    'ModernBert': (
        BERT,
        dict(local_attention=16, global_attn_every_n_layers=2),
        ModernEncoder,
        dict(local_window=8, global_every=2),
    ),
}


def write_folder(folder, family, reader) -> functools.partial:
    """Writes a random model with a byte-level tokenizer of its own; returns the encoder that it starts, without its vocabulary."""
    special, config, encoder, fields = FAMILIES[family]
    tokenizer = Tokenizer(models.BPE(unk_token=special[3] if special is not BERT else '[UNK]'))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [document.text for document in reader.read(None)[1]]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    if special[0] == '<s>':
        tokenizer.post_processor = processors.RobertaProcessing(('</s>', 2), ('<s>', 0), add_prefix_space=False)
    ids = dict(pad_token_id=1, bos_token_id=None, eos_token_id=None)
    if family == 'ModernBert':
        ids |= dict(cls_token_id=3, sep_token_id=4)
    config = getattr(transformers, f'{family}Config')(vocab_size=tokenizer.get_vocab_size(), **SIZES, **config, **ids)
    getattr(transformers, f'{family}Model')(config).save_pretrained(folder)
    tokenizer.save(str(folder / 'tokenizer.json'))
    return functools.partial(encoder, **FIELDS, **fields)


@pytest.mark.parametrize('family', ['MPNet', pytest.param('ModernBert', marks=pytest.mark.slow)])
def test_text_is_prepared_an_encoder_trained_and_a_memory_built(tmp_path, family):
    if not hasattr(transformers, f'{family}Model'):
        pytest.skip(f'this transformers has no {family}')
    reader = Synthetic(num_documents=20, num_train=4, num_eval=4)
    encoder = write_folder(tmp_path / 'model', family, reader)
    prepare(kb=str(tmp_path), reader=reader, tokenizer=str(tmp_path / 'model'), max_tokens=60)
    prepared = Prepared(tmp_path / 'text')
    passage, stored = next(iter(prepared.records.read(np.array([0])))), prepared.passages.slice(0, 1).to_pylist()[0]
    as_text = lambda tokens: ''.join(map(prepared.tokenizer.id_to_token, tokens.tolist())).replace('Ġ', ' ').strip()
    found = [as_text(passage.tokens[a:b]) for a, b in zip(passage.starts, passage.ends)]
    assert found == [stored['text'][mention['start'] : mention['end']] for mention in stored['mentions']]
    assert prepared.special.pad == 0 and 0 not in passage.tokens

    run = functools.partial(tiny_training.run, tmp_path / 'text', encoder=encoder, bert_folder=str(tmp_path / 'model'))
    metrics = run(tmp_path / 'relations', objectives.Relations(rows=8, sampler='shared'), num_steps=2)
    assert np.isfinite(metrics['loss'])
    build_memory(kb=str(tmp_path), model='relations')
    assert np.isfinite(Memory.open(tmp_path / 'memory').relations()).all()

    other = functools.partial(encoder, layer_norm_epsilon=1e-7)
    with pytest.raises(InputError, match='has layer_norm_epsilon=1e-05, and the encoder that is trained 1e-07: set'):
        run(tmp_path / 'other', objectives.Relations(rows=8), encoder=other)
