"""XPlane profiles (`.xplane.pb`) of TensorFlow 2, Keras and JAX."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=(
        "copy-bytes",
        "device-activity",
        "host-ops",
        "input",
        "programs",
        "runtime-calls",
        "python-stacks",
    ),
    after=("kineto",),
    memory_factor=2.5,
)

__all__ = ["FORMAT"]
