"""TensorFlow's `RunMetadata` and `StepStats` protobufs."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=(
        "copies",
        "device-activity",
        "host-ops",
        "memory",
        "sync-calls",
        "whole-step",
        "placement",
    ),
    after=("tensorboard", "tfprof", "xplane"),
)

__all__ = ["FORMAT"]
