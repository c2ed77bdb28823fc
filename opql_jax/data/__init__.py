"""Examples: tokenised, marked, sampled and batched (numpy, HF tokenizers, Grain)."""
