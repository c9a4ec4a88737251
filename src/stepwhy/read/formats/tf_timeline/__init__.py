"""TensorFlow 1 timelines (`tensorflow.python.client.timeline`)."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("copies", "device-activity", "host-ops", "memory", "sync-calls", "whole-step"),
    after=("kineto",),
)

__all__ = ["FORMAT"]
