"""Note which arguments of jitted functions are the same arrays in each of the traced steps.

Arrays of JAX do not change, so that the same array has the same values. What a compiled program
computes from such arguments alone, it computes again in each step. Nothing is kept alive: arrays
are remembered by weak references.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.steps.function_kinds import unwrap

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.steps.loop import Loop

KIND = "same-arguments"
"""Kind of the event with the names of the arguments, one per line."""
_MOST_FUNCTIONS = 32
_MOST_CALLS = 256  # of a function that are compared; a step of tiny functions calls some thousands
_MOST_LEAVES = 4096  # arrays in the arguments of a call; to look at them takes 1 ms


class _Calls:
    """Arguments of a function that were the same in all calls so far.

    Args:
        name: The function.
        step: Step of the first call.
        arrays: The arrays of the first call by their name.
        places: Number of each among the leaves of all arguments.
    """

    def __init__(
        self, name: str, step: int, arrays: dict[str, Any], places: dict[str, int]
    ) -> None:
        self.name, self.first, self.last = name, step, step
        self._arrays, self._places = arrays, places
        self._count = 1

    def compare(self, leaves: list[Any], step: int) -> None:
        """Keep the arguments that are the same in a further call."""
        if self._count >= _MOST_CALLS:
            return
        self._count, self.last = self._count + 1, step
        for name in list(self._arrays):
            place = self._places[name]
            if place >= len(leaves) or self._arrays[name]() is not leaves[place]:
                del self._arrays[name]

    @property
    def names(self) -> list[str]:
        """The arguments that were the same."""
        return list(self._arrays)

    @property
    def steps(self) -> int:
        """Number of steps between the first and the last call."""
        return self.last - self.first


class SameArguments:
    """Compare the arguments of calls while the profiler runs, and log the result after it.

    Args:
        loop: The loop of this process.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[int, _Calls | None] = {}

    @property
    def is_due(self) -> bool:
        """Whether calls are to be passed: the profiler runs, or has run since the last one."""
        return self._loop.window.running or bool(self._known)

    def called(self, number: int, function: Any, args: Any, kwargs: Any, step: int) -> None:
        """A call of a jitted function has ended.

        Args:
            number: Number of its kind.
            function: The function.
            args: Its positional arguments.
            kwargs: Its arguments by name.
            step: Number of the step.
        """
        if not self._loop.window.running:
            self._log()
            return
        tree, calls = sys.modules["jax"].tree_util, self._known.get(number)
        if calls is not None:
            calls.compare(tree.tree_leaves((args, kwargs)), step)
        elif number not in self._known and len(self._known) < _MOST_FUNCTIONS:
            self._known[number] = _first_call(tree, function, args, kwargs, step)

    def _log(self) -> None:
        """Log what was the same, once the profiler has stopped."""
        known, self._known = self._known, {}
        time_ns = now_ns()
        for calls in filter(None, known.values()):
            self._loop.recorder.event(
                KIND,
                name=calls.name,
                start_ns=time_ns,
                end_ns=time_ns,
                reason="\n".join(calls.names),
                count=calls.steps,
            )


def _first_call(tree: Any, function: Any, args: Any, kwargs: Any, step: int) -> _Calls | None:
    """The arrays of a call; None if they cannot be named as the compiled program names them."""
    plain = getattr(function, "_fun", function)
    try:
        bound = inspect.signature(plain).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    place_of = {id(leaf): n for n, leaf in enumerate(tree.tree_leaves((args, kwargs)))}
    if len(place_of) > _MOST_LEAVES:
        return None
    arrays, places = {}, {}
    array = sys.modules["jax"].Array
    for path, leaf in tree.tree_flatten_with_path(bound)[0]:
        if isinstance(leaf, array) and id(leaf) in place_of:
            # Source: `_arg_names` of jax/_src/api_util.py.
            name = f"{path[0].key}{tree.keystr(path[1:])}"
            arrays[name], places[name] = weakref.ref(leaf), place_of[id(leaf)]
    return _Calls(getattr(unwrap(plain), "__name__", ""), step, arrays, places)
