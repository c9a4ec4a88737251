"""Set the seeds of random numbers alike in each run, before the program sets its own.

Where the program sets seeds, its own apply, since it runs later.
"""

from __future__ import annotations

from stepwhy.record.core import import_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_SEED = 20_260


def set_seeds() -> None:
    """Set the seeds of Python, NumPy, PyTorch and TensorFlow, each when it is imported."""
    import_hooks.after_import("random", _seed_python)
    import_hooks.after_import("numpy.random", _seed_python)
    import_hooks.after_import("torch.random", _seed_torch)
    import_hooks.after_import("tensorflow.python.framework.random_seed", _seed_tensorflow)
    import_hooks.after_import("keras.src.random.seed_generator", _seed_keras)


def _seed_python(module: Any) -> None:
    """Seed `random` or `numpy.random`, which share the name of the function."""
    module.seed(_SEED)


def _seed_torch(module: Any) -> None:
    """Seed the generator of the CPU; `manual_seed` needs more of torch than is imported here."""
    module.default_generator.manual_seed(_SEED)


def _seed_tensorflow(module: Any) -> None:
    module.set_seed(_SEED)


def _seed_keras(_: ModuleType) -> None:
    """Seed Keras' initialisers, which draw from Python's generator."""
    import random

    random.seed(_SEED)
