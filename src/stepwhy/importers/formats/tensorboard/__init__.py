"""TensorBoard event files: fill levels of TensorFlow 1 queues and step rates."""

from stepwhy.importers.format import Format

FORMAT = Format(signals=("summaries",), magic=b"brain.Event:")

__all__ = ["FORMAT"]
