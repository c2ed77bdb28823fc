"""Small corpora for retrieval, written as texts in which names stand in brackets."""

import itertools
import re
import zlib

import numpy as np

from opql_jax.corpus.sentences import sentence_starts
from opql_jax.retrieval.corpus import Corpus
from opql_jax.retrieval.words import words_of

DIM = 64


def vector_of(text: str) -> np.ndarray:
    """[DIM] a vector of a text, a sum of directions of its words."""
    rngs = (np.random.default_rng(zlib.crc32(word.encode())) for word in words_of(text))
    directions = [rng.normal(size=DIM) for rng in rngs]
    return np.sum(directions, 0).astype(np.float32) if directions else np.zeros(DIM, np.float32)


def corpus_of(passages: dict[str, str]) -> Corpus:
    """A corpus whose entities are the titles, then the names in brackets; ids are small titles."""
    entities = {title: number for number, title in enumerate(passages)}
    texts, mentions = [], []
    for passage, marked in enumerate(passages.values()):
        text = ''
        for plain, name in re.findall(r'([^\[]*)(?:\[([^\]]*)\])?', marked):
            text += plain
            if name:
                entity = entities.setdefault(name, len(entities))
                mentions.append((passage, len(text), len(text) + len(name), entity))
                text += name
        texts.append(text)
    starts = [sentence_starts(text) for text in texts]
    cut = lambda text, at: [text[a:b] for a, b in itertools.pairwise([*at, len(text)])]
    sentences = list(itertools.chain(*map(cut, texts, starts)))
    return Corpus(
        ids=[title.lower() for title in passages],
        titles=list(passages),
        texts=texts,
        title_entities=np.arange(len(passages)),
        mentions=np.array(mentions, np.int32).reshape(-1, 4),
        names=list(entities),
        kinds=['name'] * len(entities),
        mention_kinds=np.zeros((len(mentions), 4), np.float16),
        sentence_starts=starts,
        passage_vectors=np.stack([vector_of('. '.join(both)) for both in zip(passages, texts)]),
        sentence_vectors=np.stack([vector_of(sentence) for sentence in sentences]),
        encoded_by='',
    )
