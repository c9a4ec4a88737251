"""Take turns on the GPU with the other programs of a session of the GPU lab."""

import fcntl
import importlib
import os
from pathlib import Path

VARIABLE = "GPU_LAB_TURN"
_held = []


def take(*modules):
    """Wait until no other program uses the GPU; the turn lasts until this process ends.

    The session sets a variable to the name of a file that programs lock. Without it, this does
    nothing.

    Args:
        modules: What to import first, since that takes seconds and needs no GPU.
    """
    file = os.environ.get(VARIABLE)
    if file:
        for module in modules:
            importlib.import_module(module)
        _held.append(Path(file).open("a"))  # noqa: SIM115 - held until the end
        fcntl.flock(_held[0], fcntl.LOCK_EX)
