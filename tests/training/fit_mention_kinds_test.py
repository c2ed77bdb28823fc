"""Kinds of mentions are learnt from documents whose entities have types."""

import json

import numpy as np

from opql_jax.models.mention_kinds import KINDS
from opql_jax.training.fit_mention_kinds import fit, read_typed, typed_mentions

import tiny_text_encoder

ENCODER = tiny_text_encoder.make()
TYPES = {'PER': ['Emma', 'Lucy', 'Ann'], 'LOC': ['York', 'river'], 'ORG': ['city']}
TYPES |= {'MISC': ['song'], 'TIME': ['1979']}


def write(path):
    rng, documents = np.random.default_rng(0), []
    for number in range(30):
        sentences, clusters = [], []
        for sentence in range(2):
            tokens = []
            for kind in rng.permutation(list(TYPES)):
                place = {'sent_id': sentence, 'pos': [len(tokens), len(tokens) + 1]}
                clusters.append([{'type': str(kind), **place}])
                tokens += [str(rng.choice(TYPES[kind])), str(rng.choice(['met', 'saw', 'built']))]
            sentences.append([*tokens, '.'])
        document = {'title': f'Document {number}', 'sents': sentences}
        labels = [{'h': 0, 't': 1, 'r': 'P1'}]  # which do not matter
        documents.append(document | {'vertexSet': clusters, 'labels': labels})
    path.write_text(json.dumps(documents))
    return read_typed(path)


def test_batches_have_the_kind_of_each_mention_in_order_and_no_times(tmp_path):
    kind_of = {name: kind for kind, names in TYPES.items() for name in names}
    told = {'PER': 'person', 'LOC': 'place', 'ORG': 'organisation', 'MISC': 'thing'}
    count = 0
    for batch, kinds in typed_mentions(ENCODER, write(tmp_path / 'documents.json')):
        names = []
        for row in batch.to_pylist():
            names += [row['text'][m['start'] : m['end']] for m in row['mentions']]
        assert kinds == [told[kind_of[name]] for name in names]
        count += len(names)
    assert count == 30 * 2 * 4


def test_what_is_fitted_tells_the_kinds_of_new_mentions():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 8)) * 3
    draw = lambda count: (
        labels := rng.integers(4, size=count),
        (centres[labels] + rng.normal(size=(count, 8))) * 0.01 + 5,
    )
    labels, vectors = draw(600)
    found = fit(vectors, [KINDS[label] for label in labels])
    labels, vectors = draw(200)
    assert (found.log_probabilities(vectors).argmax(axis=1) == labels).mean() > 0.95
