"""Start a training command with the observer in place, and wait for it to end."""
