"""Log how many trainable parameters the program has of each type."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

# Programs have two or three types; each takes a line of the log.
_MOST_TYPES = 8


class ParameterTypes:
    """The log of one process: the types of the model with the most parameters.

    Args:
        recorder: Writes the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has seen no model yet (after a fork)."""
        self._most = 0

    def log(self, parameters: Callable[[], Iterable[tuple[str, int]]]) -> None:
        """Log the types of a model, unless a larger one was logged; never raises.

        Args:
            parameters: Returns the type ('float32') and the number of elements of each parameter.
        """
        with contextlib.suppress(Exception):
            elements: Counter[str] = Counter()
            for dtype, size in parameters():
                elements[dtype] += size
            if elements.total() > self._most:
                self._most = elements.total()
                self._write(elements)

    def log_once(self, parameters: Callable[[], Iterable[tuple[str, int]]]) -> None:
        """The same, but look at no model after the first one."""
        if not self._most:
            self._most = 1
            self.log(parameters)

    def _write(self, elements: Counter[str]) -> None:
        time_ns = now_ns()
        for dtype, size in elements.most_common(_MOST_TYPES):
            self._recorder.event(
                "parameters", name=dtype, start_ns=time_ns, end_ns=time_ns, count=size
            )


@functools.cache
def types_of(recorder: Recorder) -> ParameterTypes:
    """The log of those that see the same model: optimizers, and functions that are traced."""
    return ParameterTypes(recorder)


def of_variables(variables: Iterable[Any]) -> Iterator[tuple[str, int]]:
    """Type and number of elements of each variable of TensorFlow or Keras."""
    for variable in variables:
        name = getattr(variable.dtype, "name", variable.dtype)  # a string in Keras 3
        yield str(name), math.prod(variable.shape)
