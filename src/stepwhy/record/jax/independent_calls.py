"""Find jitted functions that are called again and again, where no call needs the one before.

Arrays are followed while the profiler runs, from what a function returns through all other jitted
functions, those of `jax.numpy` among them, to its next call. What Python computes from a result
cannot be followed, such as the next observation of an agent, which may reach a call as an array of
NumPy or, by `jnp.asarray`, of JAX. So an array only counts as independent if the same function was
passed it before, if it is a part of an array of NumPy of which that was passed a part, if it is a
key of random numbers, or if a function of JAX made it from such arrays. Nothing is kept alive.
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
        self.passed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

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
        self._of_jax: dict[int, _Calls] = {}
        self._made_by: dict[int, tuple[weakref.ref[Any], frozenset[_Row]]] = {}
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
            calls = self._calls_of(number, function)
            are_known = self._continue_row(number, calls, leaves, rows)
            rows |= {(number, calls.row)}
        else:
            calls = self._of_jax.setdefault(id(function), _Calls(""))
            are_known = self._are_known(calls, leaves)
        array = sys.modules["jax"].Array
        # What is returned may depend on any call where what was passed may.
        for leaf in made if are_known else ():
            if isinstance(leaf, array):
                self._made_by[id(leaf)] = weakref.ref(leaf), rows

    def _rows(self, leaf: Any) -> frozenset[_Row]:
        """The rows of calls that an array was computed from, of those that still last."""
        reference, rows = self._made_by.get(id(leaf), (None, frozenset()))
        if reference is None or reference() is not leaf:
            return frozenset()
        return frozenset(row for row in rows if self._calls[row[0]].row == row[1])

    def _calls_of(self, number: int, function: Any) -> _Calls:
        calls = self._calls.get(number)
        if calls is None:
            plain = unwrap(getattr(function, "_fun", function))
            calls = self._calls[number] = _Calls(getattr(plain, "__name__", ""))
        return calls

    def _continue_row(
        self, number: int, calls: _Calls, leaves: list[Any], rows: frozenset[_Row]
    ) -> bool:
        """Count a call to the current row, or to the next one; whether its arguments are known."""
        numbers = [leaf if type(leaf) in _NUMBERS else None for leaf in leaves]
        are_known = self._are_known(calls, leaves) and _count_up(numbers, calls.leaves)
        if (number, calls.row) in rows or not are_known:
            calls.begin_row()
        calls.count()
        calls.leaves = numbers
        return are_known

    def _are_known(self, calls: _Calls, leaves: list[Any]) -> bool:
        """Whether Python has made no array among the arguments of a call from an earlier result."""
        # Each is looked at, so that it is known the next time.
        are_known = [self._is_known(calls.passed, leaf) for leaf in leaves]
        return all(are_known)

    def _is_known(self, passed: weakref.WeakValueDictionary[int, Any], leaf: Any) -> bool:
        numpy, array = sys.modules["numpy"], sys.modules["jax"].Array
        if isinstance(leaf, array):
            reference, _ = self._made_by.get(id(leaf), (None, None))
            if (reference is not None and reference() is leaf) or _is_key(leaf):
                return True
            owner = leaf
        elif isinstance(leaf, numpy.ndarray):
            owner = leaf if leaf.base is None else leaf.base
        else:
            return True  # see `_count_up`
        was_passed = passed.get(id(owner)) is owner
        with contextlib.suppress(TypeError):  # such as bytes
            passed[id(owner)] = owner
        return was_passed

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


def _is_key(leaf: Any) -> bool:
    """Whether an array is a key of random numbers, which no result is computed into.

    Iterating over an array of keys calls no function that could be followed.
    """
    kind = str(getattr(leaf, "dtype", ""))
    return kind.startswith("key<") or (kind == "uint32" and leaf.shape == (2,))


def _count_up(numbers: list[Any], before: list[Any]) -> bool:
    """Whether numbers among the arguments stay, or go up by one, as that of an example does."""
    if len(numbers) != len(before):
        return False
    pairs = [pair for pair in zip(numbers, before, strict=True) if pair != (None, None)]
    return all(None not in pair and pair[0] - pair[1] in {0, 1} for pair in pairs)
