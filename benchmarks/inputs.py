"""Encoders and corpora that the benchmarks run on."""

import pathlib

import gin
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.models.encoder import RelationEncoder

MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'


def make_encoder(model: str, vocab_size: int, **fields) -> RelationEncoder:
    """The encoder of a size in gin/models."""
    gin.parse_config_file(str(MODELS / f'{model}.gin'))
    return gin.get_configurable(RelationEncoder)(vocab_size=vocab_size, **fields)


def generated_corpus(folder: str, num_documents: int, max_tokens: int) -> Prepared:
    """Prepares the generated corpus in a folder; settings as in gin/data/synthetic.gin but for the passages' `max_tokens`."""
    reader = Synthetic(num_documents=num_documents, num_train=1, num_eval=1)
    prepare(kb=folder, reader=reader, wordpieces=4000, max_tokens=max_tokens, drop_above_rate=1.0)
    return Prepared(KBFolder(folder).part('text'))
