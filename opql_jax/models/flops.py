"""The encoder's FLOPs by a formula, and devices' peak FLOP/s: model FLOPs utilisation (MFU)."""

from collections.abc import Sequence

from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.modern_bert import ModernEncoder

# Dense bfloat16 FLOP/s of one JAX device, from the data sheets of Google and NVIDIA. A TPU v2 or v3
# chip (46 and 123 TFLOP/s) is two devices.
_TPU_PEAKS = {
    'TPU v2': 23e12,
    'TPU v3': 61.5e12,
    'TPU v4': 275e12,
    'TPU v5 lite': 197e12,
    'TPU v5e': 197e12,
    'TPU v5': 459e12,
    'TPU v5p': 459e12,
    'TPU v6 lite': 918e12,
    'TPU v6e': 918e12,
}
# By prefix, the longest one counts: names of GPUs end in memory and form, as in 'NVIDIA
# A100-SXM4-80GB', 'NVIDIA H100 80GB HBM3'.
_GPU_PEAKS = {
    'NVIDIA A100': 312e12,
    'NVIDIA H100': 989e12,
    'NVIDIA H100 PCIe': 756e12,
    'NVIDIA H200': 989e12,
}

# Each product of the forward pass has two in the backward pass: the gradients of its input and of
# its weights.
TRAINING_OVER_FORWARD = 3


def encoder_flops(
    encoder: RelationEncoder, tokens_shape: Sequence[int], positions: int | None = 3
) -> float:
    """FLOPs of the forward pass over tokens [n, L]; a multiplication and its addition are two.

    Counts the products with weights and the two of attention, 2 n L (4 h^2 + 2 h m) + 4 n L^2 h per
    layer of hidden size h and feed-forward width m, with padding; an encoder without a transformer
    counts 0. The last layer is computed at `positions`: 2 + C in `RelationEncoder.encode` with C
    context mentions; None for all, as in `RelationEncoder.hidden`.
    """
    if not isinstance(encoder, RelationEncoder):
        return 0.0
    n, length = tokens_shape
    hidden, outputs = encoder.hidden_size, length if positions is None else positions
    # Per position: keys and values; queries and all after attention; attention itself. A
    # ModernBERT's feed-forward layer is gated.
    mlp = (6 if isinstance(encoder, ModernEncoder) else 4) * hidden * encoder.mlp_size
    read, computed, attention = 4 * hidden**2, 4 * hidden**2 + mlp, 4 * hidden * length
    layers = (encoder.num_layers - 1) * length * (read + computed + attention)
    layers += length * read + outputs * (computed + attention)
    projected = 0
    if positions is not None:
        outputs = 2 * encoder.relation_dim + (positions - 2) * encoder.entity_dim
        projected = 2 * hidden * outputs
    return float(n * (layers + projected))


def peak_flops(device_kind: str) -> float | None:
    """Nominal bfloat16 FLOP/s by `jax.Device.device_kind`; None if unknown, such as 'cpu'."""
    prefixes = [name for name in _GPU_PEAKS if device_kind.startswith(name)]
    return _GPU_PEAKS[max(prefixes, key=len)] if prefixes else _TPU_PEAKS.get(device_kind)
