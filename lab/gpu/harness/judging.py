"""What judges of live points share: the evidence of runs, and the answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PASSED, FAILED, UNKNOWN = "passed", "failed", "cannot tell"
_SAME_LOSS = 0.01  # relative; as far as reordered sums in mixed precision may differ

Items = dict[str, dict[str, Any]]
Answer = tuple[str, str]


class NotMeasuredError(Exception):
    """What a point rests on was not measured; the message says what and why."""


def live_run(items: Items, name: str) -> dict[str, Any]:
    """A run that succeeded."""
    run = items.get(f"run/{name}")
    if run is None:
        raise NotMeasuredError(f"run/{name} was not measured")
    if run.get("error"):
        first = str(run["error"]).splitlines()[0]
        raise NotMeasuredError(f"run/{name} failed: {first}")
    return run


def explanation_of(items: Items, name: str) -> dict[str, Any]:
    explained = live_run(items, name).get("explained")
    if explained is None:
        raise NotMeasuredError(f"run/{name} was not explained")
    return explained


def on_gpu(items: Items) -> bool:
    return bool(items.get("environment", {}).get("card"))


def needs_gpu(judge: Callable[[Items], Answer]) -> Callable[[Items], Answer]:
    """A judge that cannot tell without a GPU."""

    def judged(items: Items) -> Answer:
        return judge(items) if on_gpu(items) else (UNKNOWN, "no GPU")

    return judged


def tells_on_gpu(judge: Callable[[Items], Answer]) -> Callable[[Items], Answer]:
    """A judge whose evidence is shown, but proves nothing, without a GPU."""

    def judged(items: Items) -> Answer:
        answer, text = judge(items)
        return (answer, text) if on_gpu(items) else (UNKNOWN, f"no GPU; on this CPU: {text}")

    return judged


def windows_of(items: Items, name: str) -> list[dict[str, Any]]:
    """Readable windows of a run."""
    windows = [w for w in live_run(items, name)["evidence"]["windows"] if "unreadable" not in w]
    if not windows:
        raise NotMeasuredError(f"no window was recorded in run/{name}")
    return windows


def same_losses(items: Items, name: str, other: str) -> Answer:
    """Compare the losses of a live run with those of another program that trains the same."""
    return compared(live_run(items, name), items, other)


def compared(run: dict[str, Any], items: Items, other: str) -> Answer:
    """Compare the losses of a run with those of another program that trains the same."""
    losses = run["losses"]
    expected = [loss for loss in items.get(other, {}).get("losses") or () if loss is not None]
    text = f"loss {' to '.join(map(str, losses))}"
    if not losses or None in losses or not all(map(math.isfinite, losses)):
        return FAILED, text
    if not expected:
        return PASSED, f"{text}; {other} was not measured to compare it with"
    differs = max(abs(a - b) / max(abs(b), 1e-9) for a, b in zip(losses, expected, strict=True))
    text = f"{text}; {100 * differs:.2g} % from {other}"
    return (PASSED if differs <= _SAME_LOSS else FAILED), text
