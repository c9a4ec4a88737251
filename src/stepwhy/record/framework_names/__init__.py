"""The names of frameworks that are relied on here and that no framework promises to keep.

`tests.versions` looks each up in several versions of its framework. At run time a missing
name ends what it is needed for, and nothing else: see `process.losses`.
"""

from __future__ import annotations

from stepwhy.record.framework_names.jax import JAX
from stepwhy.record.framework_names.name import Name
from stepwhy.record.framework_names.tensorflow import KERAS, TENSORFLOW
from stepwhy.record.framework_names.torch import TORCH
from stepwhy.record.framework_names.trials import TRIALS

OBSERVERS: dict[str, tuple[Name, ...]] = {
    "torch": TORCH,
    "jax": JAX,
    "tensorflow": TENSORFLOW,
    "keras": KERAS,
}
"""The names that observers use, by framework."""

NAMES = {framework: (*names, *TRIALS.get(framework, ())) for framework, names in OBSERVERS.items()}
"""All names by framework: those of observers, and those of the fixes that can be tried."""


def lost_with(module: str) -> str:
    """What cannot be observed if a module of a framework cannot be instrumented.

    Args:
        module: Its full name.
    """
    names = (name for group in OBSERVERS.values() for name in group if name.module == module)
    lost = list(dict.fromkeys(name.lost for name in names))
    return "; ".join(lost) or f"what {module} does"


__all__ = ["NAMES", "OBSERVERS", "Name", "lost_with"]
