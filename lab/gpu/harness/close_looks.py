"""Live points of what follows the first window: steps looked at closely, and a second one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from judging import (
    FAILED,
    PASSED,
    UNKNOWN,
    Answer,
    Items,
    NotMeasuredError,
    compared,
    live_run,
    needs_gpu,
    tells_on_gpu,
    windows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_OBSERVED, _PLAIN = "overhead/long/observed/0", "overhead/long/plain/0"


def looked_at(file: str, what: str) -> Callable[[Items], Answer]:
    """Judge by what is kept of such a step, and by the losses with and without stepwhy.

    Args:
        file: What is kept.
        what: What it holds, for the answer.
    """

    @tells_on_gpu
    def judge(items: Items) -> Answer:
        item = items.get(_OBSERVED)
        if item is None or item.get("error"):
            raise NotMeasuredError(f"{_OBSERVED} was not measured")
        evidence = item["evidence"]
        longest = max((ms for ms, profiled in evidence["steps"] if profiled), default=0.0)
        is_kept = file in evidence["kept"]
        why = ", ".join(evidence["refused"]) or "no reason is recorded"
        same, losses = compared(item, items, _PLAIN)
        return (PASSED if is_kept and same == PASSED else FAILED), (
            f"{what}: {'kept' if is_kept else f'missing ({why})'}; "
            f"longest step with stepwhy {longest:.1f} ms; {losses}"
        )

    return judge


@needs_gpu
def captured_step(items: Items) -> Answer:
    """Judge a program that captures a CUDA graph in the step whose operations are looked at."""
    failure = items.get("run/captured", {}).get("error")
    if failure:  # a capture that reads from the device meanwhile ends with an error
        return FAILED, f"run/captured failed: {str(failure).splitlines()[0]}"
    seen = live_run(items, "captured")["printed"]
    if seen["captured"] is None:
        return UNKNOWN, "no step was looked at, in which a graph could have been captured"
    why = ", ".join(live_run(items, "captured")["evidence"]["refused"]) or "no reason is recorded"
    is_finite = seen["loss"] is not None and math.isfinite(seen["loss"])
    return (PASSED if is_finite else FAILED), (
        f"captured in step {seen['captured']}, whose rest was left out: {why}; loss {seen['loss']}"
    )


@tells_on_gpu
def later_window(items: Items) -> Answer:
    """Judge the windows of a program whose steps take longer from its middle on."""
    kernels = [window.get("kernels", 0) for window in windows_of(items, "changed")]
    text = f"kernels in each window: {', '.join(map(str, kernels))}"
    if len(kernels) == 1:
        return UNKNOWN, f"{text}; no second one was opened"
    return (PASSED if all(kernels) else FAILED), text
