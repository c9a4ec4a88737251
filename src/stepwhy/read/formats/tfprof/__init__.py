"""TensorFlow's tfprof profiles (`ProfileProto`)."""

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
    after=("tensorboard", "xplane"),
    memory_factor=1.2,
)

__all__ = ["FORMAT"]
