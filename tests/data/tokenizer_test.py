"""Tokenizers: training, loading, markers."""

import subprocess
import sys

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from opql_jax.data import markup
from opql_jax.data import tokenizer as tokenizer_lib

TEXTS = [
    'Ada Lovelace wrote the first program in 1843.',
    'The programme was written for the Analytical Engine of Charles Babbage.',
    'Čapek coined the word robot; 北京 is a city.',
] * 3


@pytest.mark.parametrize('marker', tokenizer_lib.SPECIAL_TOKENS)
def test_text_cannot_smuggle_in_a_marker(tmp_path, marker):
    trained = tokenizer_lib.train_wordpiece(TEXTS, 300)
    trained.save(str(tmp_path / 'tokenizer.json'))
    for tokenizer in (trained, tokenizer_lib.load_tokenizer(tmp_path)):
        ids = tokenizer.encode(f'the {marker} was', add_special_tokens=False).ids
        assert tokenizer.token_to_id(marker) not in ids or marker == '[UNK]'


def test_training_is_the_same_in_every_process():
    # The library orders ties by a hash that differs between processes.
    program = (
        'import hashlib; from opql_jax.data.tokenizer import train_wordpiece;'
        'texts = ["".join(chr(97 + (i * j) % 26) for j in range(1, 9)) for i in range(1, 400)];'
        'print(hashlib.sha256(train_wordpiece(texts, 400).to_str().encode()).hexdigest())'
    )
    run = lambda: subprocess.check_output([sys.executable, '-c', program], text=True)
    assert run() == run() == run()


def test_words_that_are_unknown_as_a_whole_are_not_learnt_from():
    # The trainer would take minutes for half a million letters in a row.
    tokenizer = tokenizer_lib.train_wordpiece(['ab ab', 'a' * 500_000, 'q' * 101], 100)
    assert tokenizer.get_vocab() == tokenizer_lib.train_wordpiece(['ab ab'], 100).get_vocab()
    assert tokenizer.encode('q' * 101, add_special_tokens=False).tokens == ['[UNK]']


def test_a_bert_vocabulary_lends_its_unused_tokens(tmp_path):
    unused = '[unused0] [unused1] [unused2] [unused3]'
    words = f'[PAD] {unused} [UNK] [CLS] [SEP] [MASK] film'.split()
    (tmp_path / 'vocab.txt').write_text('\n'.join(words) + '\n', encoding='utf-8')
    tokenizer = tokenizer_lib.load_tokenizer(tmp_path)
    assert tokenizer_lib.special_ids(tokenizer) == (0, 5, 6, 7, 2, 3, 4)
    assert tokenizer.encode('Film', add_special_tokens=False).tokens == ['film']


def roberta():
    special = ['<s>', '<pad>', '</s>', '<unk>', *(f'madeupword000{i}' for i in range(3))]
    tokenizer = Tokenizer(models.BPE(unk_token=special[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    ends = ('</s>', 2), ('<s>', 0)
    tokenizer.post_processor = processors.RobertaProcessing(*ends, add_prefix_space=False)
    return tokenizer, (0, 3, 1, 2, 4, 5, 6)


def mpnet():
    words = '<s> <pad> </s> [UNK] [unused0] [unused1] [unused2] [unused3] ada wrote program in'
    vocabulary = {word: i for i, word in enumerate(words.split())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token='[UNK]'))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(['<s>', '<pad>', '</s>'])
    return tokenizer, (0, 3, 1, 2, 5, 6, 7)


@pytest.mark.parametrize('family', [roberta, mpnet])
def test_padding_of_a_relative_of_bert_becomes_0_and_nothing_else_changes(tmp_path, family):
    original, markers = family()
    pad = original.token_to_id('<pad>') or original.token_to_id('[PAD]')
    original.save(str(tmp_path / 'tokenizer.json'))
    loaded = tokenizer_lib.load_tokenizer(tmp_path)
    assert tokenizer_lib.special_ids(loaded) == markers and pad
    exchanged = {0: pad, pad: 0}
    wanted = {t: exchanged.get(i, i) for t, i in original.get_vocab(with_added_tokens=True).items()}
    assert loaded.get_vocab(with_added_tokens=True) == wanted
    for text in TEXTS:
        found = loaded.encode(text, add_special_tokens=False)
        assert found.ids == original.encode(text, add_special_tokens=False).ids
        if family is not mpnet:  # bytes are all known, and a token is what its offsets say
            for token, (a, b) in zip(found.tokens, found.offsets):
                assert token.removeprefix('Ġ') == text[a:b] or not text[a:b].isascii()
            # Whose borders may be within a word.
            passage = markup.tokenise_passage(loaded, text, [(4, 12, 0)])
            inside = passage.tokens[passage.starts[0] : passage.ends[0]].tolist()
            name = ''.join(map(loaded.id_to_token, inside))
            assert name.replace('Ġ', ' ').strip() == text[4:12].strip() or not text.isascii()
    loaded.save(str(tmp_path / 'tokenizer.json'))  # as prepared text has it
    assert tokenizer_lib.load_tokenizer(tmp_path).to_str() == loaded.to_str()


def test_a_word_is_its_token_after_a_space():
    assert tokenizer_lib.word_id(mpnet()[0], 'wrote') == 9
    tokenizer, _ = roberta()
    spaced, plain = map(tokenizer.token_to_id, ('Ġthe', 'the'))
    assert tokenizer_lib.word_id(tokenizer, 'the') == spaced != plain


def test_errors_name_the_file_and_the_reason(tmp_path):
    file = tmp_path / 'tokenizer.json'

    def refused(said, make, *arguments):
        with pytest.raises(tokenizer_lib.TokenizerError, match=said):
            make(*arguments)

    load = tokenizer_lib.load_tokenizer
    refused('neither tokenizer.json nor vocab.txt', load, tmp_path)
    vocabulary = {'[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3}
    Tokenizer(models.WordPiece(vocabulary, unk_token='[UNK]')).save(str(file))
    refused(r'no \[ENT\] or \[unused1\]', load, tmp_path)
    said = 'vocab_size=12: specials and characters alone take'
    refused(said, tokenizer_lib.train_wordpiece, TEXTS, 12)
