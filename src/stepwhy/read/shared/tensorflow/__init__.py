"""What the importers of TensorFlow step statistics share: names, labels, messages, placement."""
