"""How much arithmetic the encoder is, by a formula, and how much a device can do: what MFU is the ratio of."""

from collections.abc import Sequence

from opql_jax.models.encoder import RelationEncoder

# bfloat16 products with dense operands, in FLOP/s of what JAX calls one device, from the data sheets of Google and NVIDIA. A TPU
# v2 or v3 chip (46 and 123 TFLOP/s) is two devices.
_PEAKS = {
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
# Names of GPUs go on with memory and form: 'NVIDIA A100-SXM4-80GB', 'NVIDIA H100 80GB HBM3'. The longest prefix counts.
_GPU_PEAKS = {'NVIDIA A100': 312e12, 'NVIDIA H100': 989e12, 'NVIDIA H100 PCIe': 756e12, 'NVIDIA H200': 989e12}

# A gradient costs two products for each one of the forward pass: towards the input and towards the weights.
TRAINING_OVER_FORWARD = 3


def encoder_flops(encoder: RelationEncoder, tokens_shape: Sequence[int], positions: int | None = 3) -> float:
    """FLOPs of encoding tokens [n, L] once (forward), counting a multiplication and its addition as two.

    Counted are the products with weights and the two of attention, 2 n L (4 h^2 + 2 h m) + 4 n L^2 h a layer of hidden size h and
    feed-forward width m; softmax, layer norms and the like are left out, and padding is counted as text.

    Args:
        encoder: of any size; another class than `RelationEncoder`, which has no transformer, counts 0.
        tokens_shape: (n, L).
        positions: of each row, at which the last layer is computed. `RelationEncoder.encode` takes the two markers and C context
            mentions, 2 + C; calling the encoder takes 3. None for everywhere, as `RelationEncoder.hidden` does by itself and as
            implementations that do not know what is read afterwards do.
    """
    if not isinstance(encoder, RelationEncoder):
        return 0.0
    n, length = tokens_shape
    hidden, places = encoder.hidden_size, length if positions is None else positions
    # Of one position: queries, keys and values; what comes after attention; attention itself.
    before, after, attention = 6 * hidden**2, 2 * hidden**2 + 4 * hidden * encoder.mlp_size, 4 * hidden * length
    layers = (encoder.num_layers - 1) * length * (before + after + attention)
    layers += length * before + places * (after + attention)
    projected = 0 if positions is None else 2 * hidden * (2 * encoder.relation_dim + (positions - 2) * encoder.entity_dim)
    return float(n * (layers + projected))


def peak_flops(device_kind: str) -> float | None:
    """The FLOP/s that a device is sold as doing in bfloat16, by `jax.Device.device_kind`; None for those unknown, such as 'cpu'."""
    found = [name for name in _GPU_PEAKS if device_kind.startswith(name)]
    return _GPU_PEAKS[max(found, key=len)] if found else _PEAKS.get(device_kind)
