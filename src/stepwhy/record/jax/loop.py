"""The training loop of a JAX process, shared by everything that observes it."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.jax.profiler import JaxProfiler
from stepwhy.record.steps.call_log import CallLog
from stepwhy.record.steps.loop import Loop
from stepwhy.record.windows.clocked_window import ClockedWindow
from stepwhy.record.windows.xplane_window import XPlaneWindow

if TYPE_CHECKING:
    from typing import Any

# Most outputs of one call become ready together; the last ones are often losses and metrics, which
# the program does not donate to the next step.
_MOST_OUTPUTS = 4


@functools.cache
def profiler() -> JaxProfiler:
    """The profiler of this process."""
    return JaxProfiler()


@functools.cache
def launched_work() -> LaunchedWork:
    """What the last step of this process has launched."""
    return LaunchedWork()


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """The loop of this process."""
    from jax.version import __version__

    recorder = Recorder(run_dir, "jax", str(__version__), "jax-jit")
    window = XPlaneWindow(recorder, profiler(), launched_work().unfinished)
    loop = Loop(recorder, ClockedWindow(recorder, window))
    loop.ahead, loop.launched = launched_work().ahead, launched_work().note
    return loop


@functools.cache
def calls_of(run_dir: str) -> CallLog:
    """The log of calls, one for functions and for the annotations around them."""
    return CallLog(loop_of(run_dir))


class LaunchedWork:
    """The outputs of the last call, which stay the program's own: only weak references are kept."""

    def __init__(self) -> None:
        self._outputs: list[weakref.ref[Any]] = []

    def note(self, output: Any) -> None:
        """Remember the arrays that a call has returned.

        Args:
            output: A tree of arrays.
        """
        self._outputs = [weakref.ref(array) for array in _last_arrays(output)]

    def ahead(self) -> bool | None:
        """Whether the device still works on the last call; None if its arrays are gone."""
        arrays = [reference() for reference in self._outputs]
        known = [a for a in arrays if a is not None and not a.is_deleted()]
        if any(not a.is_ready() for a in known):
            return True
        return False if known else None

    def unfinished(self) -> bool:
        """Whether the device is known to work on the last call."""
        return self.ahead() is True


def _last_arrays(output: Any) -> list[Any]:
    """The last arrays of a tree, without a walk through all of a large model."""
    found: list[Any] = []
    pending = [output]
    while pending and len(found) < _MOST_OUTPUTS:
        node = pending.pop()
        if hasattr(node, "is_ready"):
            found.append(node)
        elif isinstance(node, (tuple, list)):
            pending += node
        elif isinstance(node, dict):
            pending += node.values()
        elif node is not None and not found:
            # No plain container, such as a state of Flax.
            from jax.tree_util import tree_leaves

            pending += [leaf for leaf in tree_leaves(node) if hasattr(leaf, "is_ready")]
    return found
