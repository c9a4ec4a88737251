"""Note which arguments of jitted functions are the same in each traced step, and which the batch.

Arrays of JAX do not change, so that the same array has the same values. What a compiled program
computes from such arguments alone, it computes again in each step. An argument belongs to the batch
if each step passes another array that is one of NumPy, or was copied from one: what the steps
change, they return. Of large matrices that are the same, the zeros are counted, once and on CPUs,
where that needs no copy. Nothing is kept alive: arrays are remembered by weak references.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.clock import now_ns
from stepwhy.record.steps.function_kinds import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from stepwhy.record.steps.loop import Loop

KIND = "same-arguments"
"""Kind of the event with the names of the arguments, one per line."""
OF_BATCH = "batch-arguments"
"""Kind of the event with the names of those that belong to the batch."""
OF_ZEROS = "zero-argument"
"""Kind of the event with a matrix that is almost only zeros; its count is per million elements."""
_MOST_FUNCTIONS = 32
_MOST_CALLS = 256  # of a function that are compared; a step of tiny functions calls some thousands
_MOST_LEAVES = 4096  # arrays in the arguments of a call; to look at them takes 1 ms
# Elements of a matrix whose zeros are counted; more take some tenths of a second.
_LEAST_OF_MATRIX, _MOST_OF_MATRIX = 1 << 16, 1 << 27
_SAMPLED = 1 << 12  # elements of a matrix that are looked at first
_MOSTLY = 0.9  # of the elements; products with fewer zeros gain nothing without them
_MILLION = 1_000_000
_LEAST_OF_BATCH = 64  # elements; smaller ones may be settings, or keys of random numbers


class _Argument(NamedTuple):
    """An array among the arguments of a function's first call.

    Args:
        place: Its number among the leaves of all arguments.
        array: A weak reference to it.
        is_fixed: Whether nothing can change it.
        is_copied: Whether it is one of NumPy, or was made of such ones, and is not tiny.
    """

    place: int
    array: Any
    is_fixed: bool
    is_copied: bool


class _Calls:
    """Arguments of a function that were the same, or copied from NumPy, in all calls so far.

    Args:
        name: The function.
        step: Step of the first call.
        arguments: The arrays of the first call by their name.
        is_copied: Whether an array is one of NumPy, or was made of such ones.
    """

    def __init__(
        self,
        name: str,
        step: int,
        arguments: dict[str, _Argument],
        is_copied: Callable[[Any], bool],
    ) -> None:
        self.name, self.first, self.last = name, step, step
        self._arguments, self._is_copied = arguments, is_copied
        self._same = dict.fromkeys(arguments)
        self._copied = {name: None for name, each in arguments.items() if each.is_copied}
        self._count = 1

    def compare(self, leaves: list[Any], step: int) -> None:
        """Look at the arguments of a further call."""
        if self._count >= _MOST_CALLS:
            return
        self._count, self.last = self._count + 1, step
        for name in [*self._same]:
            argument = self._arguments[name]
            place = argument.place
            if place >= len(leaves) or argument.array() is not leaves[place]:
                del self._same[name]
        for name in [*self._copied]:
            place = self._arguments[name].place
            if place >= len(leaves) or not self._is_copied(leaves[place]):
                del self._copied[name]

    @property
    def same(self) -> list[str]:
        """The arguments that were the same array, which cannot change."""
        return [name for name in self._same if self._arguments[name].is_fixed]

    @property
    def batch(self) -> list[str]:
        """Those that were copied from NumPy, and not always the same."""
        return [name for name in self._copied if name not in self._same]

    @property
    def matrices(self) -> Iterator[tuple[str, Any]]:
        """Those of two dimensions or more that were the same array, as long as they are alive."""
        for name in self.same:
            array = self._arguments[name].array()
            if array is not None and array.ndim > 1:
                yield name, array

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
        self._copied: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    @property
    def is_due(self) -> bool:
        """Whether calls are to be passed: the profiler runs, or has run since the last one."""
        return self._loop.window.running or bool(self._known)

    def made(self, args: Any, kwargs: Any, output: Any) -> None:
        """A function of JAX has made arrays, such as a copy on the device.

        Args:
            args: What it was passed by position.
            kwargs: What it was passed by name.
            output: What it returned.
        """
        if not self._loop.window.running:
            return
        leaves, array = sys.modules["jax"].tree_util.tree_leaves, sys.modules["jax"].Array
        large = [each for each in leaves((args, kwargs)) if getattr(each, "size", 0) > 1]
        if large and all(map(self._is_copied, large)):
            for made in leaves(output):
                if isinstance(made, array):
                    self._copied[id(made)] = made

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
            self._known[number] = self._first_call(tree, function, args, kwargs, step)

    def _is_copied(self, array: Any) -> bool:
        """Whether an array is one of NumPy, or was made of such ones alone."""
        is_jax = isinstance(array, sys.modules["jax"].Array)
        return not is_jax or self._copied.get(id(array)) is array

    def _first_call(
        self, tree: Any, function: Any, args: Any, kwargs: Any, step: int
    ) -> _Calls | None:
        """The arrays of a call; None if they cannot be named as the compiled program names them."""
        plain = getattr(function, "_fun", function)
        try:
            bound = inspect.signature(plain).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):
            return None
        place_of = {id(leaf): n for n, leaf in enumerate(tree.tree_leaves((args, kwargs)))}
        if len(place_of) > _MOST_LEAVES:
            return None
        found = {}
        fixed, of_numpy = sys.modules["jax"].Array, sys.modules["numpy"].ndarray
        for path, leaf in tree.tree_flatten_with_path(bound)[0]:
            is_fixed = isinstance(leaf, fixed)
            if id(leaf) in place_of and (is_fixed or isinstance(leaf, of_numpy)):
                # Source: `_arg_names` of jax/_src/api_util.py.
                name = f"{path[0].key}{tree.keystr(path[1:])}"
                is_copied = leaf.size >= _LEAST_OF_BATCH and self._is_copied(leaf)
                place = place_of[id(leaf)]
                found[name] = _Argument(place, weakref.ref(leaf), is_fixed, is_copied)
        name = getattr(unwrap(plain), "__name__", "")
        return _Calls(name, step, found, self._is_copied)

    def _log(self) -> None:
        """Log what was the same and what the batch, once the profiler has stopped."""
        known, self._known = self._known, {}
        time_ns = now_ns()
        for calls in filter(None, known.values()):
            for kind, names in ((KIND, calls.same), (OF_BATCH, calls.batch)):
                self._loop.recorder.event(
                    kind,
                    name=calls.name,
                    start_ns=time_ns,
                    end_ns=time_ns,
                    reason="\n".join(names),
                    count=calls.steps,
                )
            for name, array in calls.matrices:
                zeros = _zeros(array)
                if zeros >= _MOSTLY:
                    self._loop.recorder.event(
                        OF_ZEROS,
                        name=calls.name,
                        start_ns=time_ns,
                        end_ns=time_ns,
                        reason=name,
                        count=round(zeros * _MILLION),
                    )


def _zeros(array: Any) -> float:
    """Share of zeros in a large matrix on a CPU; 0 for others."""
    if not _LEAST_OF_MATRIX <= array.size <= _MOST_OF_MATRIX:
        return 0.0
    numpy = sys.modules["numpy"]
    try:
        if [each.platform for each in array.devices()] != ["cpu"]:
            return 0.0
        values = numpy.from_dlpack(array).reshape(-1)
    except Exception:  # the array was deleted, or NumPy lacks its type
        return 0.0
    sample = values[:: max(values.size // _SAMPLED, 1)]
    if numpy.count_nonzero(sample) > (1 - _MOSTLY) * sample.size:
        return 0.0
    return 1 - int(numpy.count_nonzero(values)) / int(values.size)
