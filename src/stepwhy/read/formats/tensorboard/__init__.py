"""TensorBoard event files: fill levels of TensorFlow 1 queues and step rates."""

from stepwhy.read.format import Format

FORMAT = Format(signals=("summaries",), magic=b"brain.Event:")

__all__ = ["FORMAT"]
