"""Training: the objectives, the loop and its one jitted step, checkpoints, progress."""
