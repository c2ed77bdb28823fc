"""Training: the stages, the one jitted step that serves them all, checkpoints and the loop."""
