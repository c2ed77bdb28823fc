"""A relation encoder of a few thousand weights, without dropout, for tests of what encoders do."""

from opql_jax.models.encoder import RelationEncoder

SIZES = dict(hidden_size=16, num_layers=2, num_heads=2, mlp_size=32, dropout_rate=0.0)
SIZES |= dict(vocab_size=50, max_length=24, relation_dim=6, entity_dim=5)
# Large enough that products outweigh the rest of the FLOPs.
WIDER = dict(hidden_size=128, num_layers=3, num_heads=4, mlp_size=512, relation_dim=96)


def make(**sizes) -> RelationEncoder:
    return RelationEncoder(**SIZES | sizes)
