"""Plain text: indexed, changed, asked and searched without training."""
