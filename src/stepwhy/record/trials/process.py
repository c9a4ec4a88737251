"""Changes of the process as a whole."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from stepwhy.record.trials.ticks import Ticks

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.trials.reports import Trial

# Steps after which everything that exists counts as permanent: by then the model is built.
_BUILT = 5
# Allocations minus deallocations before the garbage collector runs, and how many such runs before
# it looks at older objects.
_RARE = (100_000, 100, 1000)


def collect_rarely(_: Any, trial: Trial) -> None:
    """Freeze what exists once the model is built, and then collect garbage rarely."""
    before = gc.get_threshold()
    steps = [0]

    def switch(on: bool) -> None:
        if on:
            gc.freeze()
            gc.set_threshold(*_RARE)
        else:
            gc.unfreeze()
            gc.set_threshold(*before)

    def tick() -> None:
        steps[0] += 1
        if steps[0] == _BUILT and gc.isenabled():
            switch(trial.on)
            trial.changed(f"gc.freeze(), gc.set_threshold{_RARE}")
            trial.switches.append(switch)

    if not gc.isenabled():
        trial.left("the garbage collector, which is disabled already")
    Ticks(tick).of_all()


def environment_only(_: Any, trial: Trial) -> None:
    """Report that the fix consists of environment variables, which the launcher has set."""
    import platform

    if trial.spec.fix == "keep-freed-memory" and platform.libc_ver()[0] != "glibc":
        return
    for name, value in trial.spec.variables.items():
        trial.changed(f"{name}={value}")
