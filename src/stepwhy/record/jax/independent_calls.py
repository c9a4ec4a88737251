"""Find jitted functions that are called again and again, where no call needs the one before.

Arrays are followed while the profiler runs, from what a function returns through all other jitted
functions, those of `jax.numpy` among them, to its next call. What Python computes from a result
cannot be followed: an array of NumPy only counts as independent if it was passed before, or is a
part of the array that the argument before it was a part of. Nothing is kept alive.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import user_line
from stepwhy.record.steps.function_kinds import unwrap

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.steps.loop import Loop

KIND = "independent-calls"
"""Kind of the event: a function, its line, and how many of its calls in a row are independent."""
FEWEST = 4  # calls in a row; with fewer, a single call saves little
_MOST_CALLS = 2000  # of a window, of all functions
_MOST_LEAVES = 512  # arrays in a call and its result; passing more takes longer than launching
_NUMBERS = (int, float, bool)

# Number of a function, and of its row of independent calls.
_Row = tuple[int, int]


class _Calls:
    """The calls of one function.

    Args:
        name: The function.
    """

    def __init__(self, name: str) -> None:
        self.name, self.line = name, ""
        self.row = 0
        self.length = self.longest = 0
        self.leaves: list[Any] = []

    def begin_row(self) -> None:
        """The call needs an earlier one, or may: it is the first of another row."""
        self.row += 1
        self.length = 0

    def count(self) -> None:
        """A call of the current row has ended."""
        self.length += 1
        if self.length > self.longest:
            self.longest = self.length
            if self.length <= FEWEST:
                self.line = user_line()


class IndependentCalls:
    """Follow the calls of jitted functions while the profiler runs, and log the result after it.

    Args:
        loop: The loop of this process.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._forget()

    def _forget(self) -> None:
        self._calls: dict[int, _Calls] = {}
        self._made_by: dict[int, tuple[weakref.ref[Any], frozenset[_Row]]] = {}
        self._passed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._seen = 0

    @property
    def is_due(self) -> bool:
        """Whether calls are to be passed: the profiler runs, or has run since the last one."""
        return self._loop.window.running or self._seen > 0

    def called(self, number: int, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        """A call of a jitted function has ended.

        Args:
            number: Number of its kind; negative for functions that JAX jits for itself.
            function: The function.
            args: Its positional arguments.
            kwargs: Its arguments by name.
            output: What it returned.
        """
        if not self._loop.window.running:
            self._log()
            return
        self._seen += 1
        if self._seen > _MOST_CALLS:
            return
        leaves_of = sys.modules["jax"].tree_util.tree_leaves
        leaves = leaves_of((args, kwargs))
        made = leaves_of(output)
        if len(leaves) + len(made) > _MOST_LEAVES:
            # What it returns is not followed, and may depend on any call.
            for calls in self._calls.values():
                calls.begin_row()
            return
        rows = frozenset(row for leaf in leaves for row in self._rows(leaf))
        if number >= 0:
            rows |= {(number, self._row(number, function, leaves, rows))}
        array = sys.modules["jax"].Array
        for leaf in made if rows else ():
            if isinstance(leaf, array):
                self._made_by[id(leaf)] = weakref.ref(leaf), rows

    def _rows(self, leaf: Any) -> frozenset[_Row]:
        """The rows of calls that an array was computed from, of those that still last."""
        reference, rows = self._made_by.get(id(leaf), (None, frozenset()))
        if reference is None or reference() is not leaf:
            return frozenset()
        return frozenset(row for row in rows if self._calls[row[0]].row == row[1])

    def _row(self, number: int, function: Any, leaves: list[Any], rows: frozenset[_Row]) -> int:
        """The row that a call belongs to."""
        calls = self._calls.get(number)
        if calls is None:
            plain = unwrap(getattr(function, "_fun", function))
            calls = self._calls[number] = _Calls(getattr(plain, "__name__", ""))
        # Each is looked at, so that it is known the next time.
        pairs = zip(leaves, calls.leaves, strict=False)
        are_known = [self._is_known(*pair) for pair in pairs]
        if (number, calls.row) in rows or len(leaves) != len(calls.leaves) or not all(are_known):
            calls.begin_row()
        calls.count()
        calls.leaves = [leaf if type(leaf) in _NUMBERS else None for leaf in leaves]
        return calls.row

    def _is_known(self, leaf: Any, before: Any) -> bool:
        """Whether Python has not made an argument from a result of the call before."""
        numpy, array = sys.modules["numpy"], sys.modules["jax"].Array
        if isinstance(leaf, array):
            return True
        if isinstance(leaf, numpy.ndarray):
            owner = leaf if leaf.base is None else leaf.base
            was_passed = self._passed.get(id(owner)) is owner
            with contextlib.suppress(TypeError):  # such as bytes
                self._passed[id(owner)] = owner
            return was_passed
        # The number of an example goes up by one.
        is_number = type(leaf) in _NUMBERS and type(before) in _NUMBERS
        return is_number and leaf - before in {0, 1}

    def _log(self) -> None:
        """Log the functions, once the profiler has stopped."""
        found, time_ns = self._calls, now_ns()
        self._forget()
        for calls in found.values():
            if calls.longest >= FEWEST and calls.line:
                self._loop.recorder.event(
                    KIND,
                    name=calls.name,
                    start_ns=time_ns,
                    end_ns=time_ns,
                    source=calls.line,
                    count=calls.longest,
                )


__all__ = ["KIND", "IndependentCalls"]
