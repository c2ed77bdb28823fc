"""Flax modules (relation encoder, follower, language model), their losses, and bulk encoding."""
