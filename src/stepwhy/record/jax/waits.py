"""Notice when a JAX program waits until the device has finished everything that was launched.

A loop that never waits launches its last steps long before the device computes them. The wait
after the loop, for a loss that is printed or for parameters that are saved, shows when they ended.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.record.core.process.losses import attempt
from stepwhy.record.jax.loop import calls_of, launched_work

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from stepwhy.record.steps.call_log import LightCalls

    Call = Callable[..., Any]

# Methods written in C++ have no usable values for the others.
_COMMON = ("__name__", "__doc__")


def observe_waits(module: ModuleType, run_dir: str) -> None:
    """Observe the ways in which a program waits for arrays of `jax._src.array`."""
    calls, work = calls_of(run_dir), launched_work()

    def waits() -> bool:
        return calls.follows and calls.loop.driven_here() and work.unfinished()

    def waited() -> None:
        if work.ahead() is False:
            calls.drained()

    def observed(original: Call) -> Call:
        return _observed(
            original,
            lambda: calls.loop.guard(waits),
            lambda: calls.loop.guard(waited),
            calls.light,
        )

    array: Any = module.ArrayImpl
    core: Any = module.xc

    def observe_values() -> None:
        array._value = property(observed(array._value.fget))

    def observe_single() -> None:
        array.block_until_ready = observed(array.block_until_ready)

    def observe_trees() -> None:
        core.batched_block_until_ready = observed(core.batched_block_until_ready)

    attempt("waits for values of JAX arrays", observe_values)
    attempt("calls of block_until_ready of JAX arrays", observe_single)
    attempt("calls of jax.block_until_ready", observe_trees)


def _observed(original: Call, waits: Call, waited: Call, light: LightCalls) -> Call:
    """A function that waits for the device, followed by `waited` if `waits` before it.

    Args:
        original: The function.
        waits: Whether the device is behind.
        waited: Called if the device was behind.
        light: While these are noted, nobody looks for the device.
    """

    @functools.wraps(original, assigned=_COMMON)
    def wait(*args: Any, **kwargs: Any) -> Any:
        if light.until_ns or not waits():
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        waited()
        return result

    return wait
