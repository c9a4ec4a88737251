"""Log large NumPy arrays that a JAX program passes to its functions: each call copies them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import user_line

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.steps.loop import Loop

# Smaller arrays are copied in less time than a function is called.
_LARGE_BYTES = 1 << 20
_WRAPPER = "TypedNdArray"
# Steps repeat what they copy, so the first copies show the rest.
_MOST_COPIES = 200
_MOST_CALLS = 5000
# Elements, spread over an array, by which it is recognised: reading them takes microseconds.
_COMPARED = 1024


class HostArrays:
    """Log the copies of large arrays: their lines, sizes, and whether they repeat.

    Args:
        loop: The loop of this process.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._copies = self._calls = 0
        self._last: dict[tuple[str, str], int] = {}

    def passed(self, arguments: Any) -> None:
        """Note the large arrays among the arguments of a call.

        Args:
            arguments: The arguments; nested containers are not searched.
        """
        numpy = sys.modules.get("numpy")
        if numpy is None or self._copies >= _MOST_COPIES or self._calls >= _MOST_CALLS:
            return
        self._calls += 1
        for value in arguments:
            # JAX wraps an array to remember its type.
            array = value.val if type(value).__name__ == _WRAPPER else value
            if type(array) is numpy.ndarray and array.nbytes >= _LARGE_BYTES:
                self._log(array)

    def _log(self, array: Any) -> None:
        """Log one copy."""
        loop, source = self._loop, user_line(sys._getframe(1))
        if not source or not loop.driven_here() or not loop.recorder.alive:
            return
        self._copies += 1
        time_ns, name = now_ns(), f"{array.dtype}{list(array.shape)}"
        sample = _sample(array)
        unchanged = sample is not None and self._last.get((source, name)) == sample
        if sample is not None:
            self._last[source, name] = sample
        loop.recorder.event(
            "copy",
            name=name,
            start_ns=time_ns,
            end_ns=time_ns,
            reason="unchanged" if unchanged else "",
            source=source,
            count=int(array.nbytes),
        )


def _sample(array: Any) -> int | None:
    """A number by which the content of an array is recognised; None if it is not contiguous."""
    if not array.flags.c_contiguous:
        return None
    flat = array.reshape(-1)
    return hash(flat[:: max(flat.size // _COMPARED, 1)].tobytes())
