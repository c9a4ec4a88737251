"""Log compilations by `torch.compile`: what, how long, and which failed guard caused each.

Dynamo passes the metrics of each compilation, including the failed guard, to
`record_compilation_metrics`, whether or not its logging is on. Nothing is printed and no logger is
changed.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import user_line
from stepwhy.record.steps.meters import CompileTime

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from stepwhy.record.core.observation_guard import ObservationGuard
    from stepwhy.record.core.recorder import Recorder

# Name of the event after which a function runs without compilation; `diagnose.host.recompilation`
# reads it.
_LIMIT = "recompile limit"
# '0/1: tensor 'x' size mismatch...': the number of the compilation that did not fit is no help.
# Versions before 2.11 pass the function to these when Dynamo is imported.
_BOUND_EARLY = ("_METRICS_CONTEXT", "_RUNTIME_METRICS_CONTEXT")
_COMPILATION_NUMBER = re.compile(r"^\d+/\d+(_\d+)?: ")


class Compilations:
    """The compilations of this process.

    Args:
        recorder: Writes their events.

    Attributes:
        any: Whether anything was compiled, also before a fork.
        fresh: Whether any belong to a step that is not logged yet.
        time: The time of those that belong to a step that is not logged yet.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.any = False
        self.time = CompileTime()
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has compiled nothing (after a fork)."""
        self.fresh = False
        self.time.take()
        self._counts: dict[tuple[str, int], int] = {}

    def add(self, duration_ns: int, metrics: dict[str, Any]) -> None:
        """Log a compilation that has ended.

        Args:
            duration_ns: How long it took.
            metrics: Dynamo's `CompilationMetrics`, by name.
        """
        end_ns = now_ns()
        start_ns = end_ns - duration_ns
        what = _what(metrics)
        self.any = self.fresh = True
        self.time.add(what, start_ns, end_ns)
        code = (str(metrics.get("co_filename")), metrics.get("co_firstlineno") or 0)
        self._counts[code] = count = self._counts.get(code, 0) + 1
        text = metrics.get("recompile_reason")
        # The failed guard, without the source line and path that Dynamo adds as a comment.
        first = str(text).strip().partition("\n")[0] if text else ""
        self._recorder.event(
            "compile",
            name=str(metrics.get("co_name") or what),
            start_ns=start_ns,
            end_ns=end_ns,
            reason=_COMPILATION_NUMBER.sub("", first.partition("  # ")[0]).strip(),
            source=user_line(),
            count=count,
        )

    def take(self) -> str:
        """Members of a step's log line for the compilations since the last call."""
        self.fresh = False
        return self.time.take()


def _what(metrics: dict[str, Any]) -> str:
    """Kind of a compilation, for the log line of the step."""
    if metrics.get("co_name") is None and metrics.get("recompile_reason"):
        return _LIMIT  # nothing was compiled: from now on the function runs without it
    if metrics.get("is_runtime"):
        return "runtime tuning"
    if metrics.get("is_forward") is False:
        return "compile backward"
    return f"compile {metrics.get('co_name') or 'graph'}"


def _compilation(
    start_ns: int, end_ns: int, metrics: dict[str, Any], *_: Any, **__: Any
) -> tuple[int, dict[str, Any]]:
    """Duration and metrics of a compilation, from the arguments by which Dynamo reports it."""
    return end_ns - start_ns, metrics


def instrument(module: ModuleType, compilations: Compilations, guard: ObservationGuard) -> None:
    """Log the compilations of `torch._dynamo.utils`.

    Args:
        module: That module.
        compilations: Logs them.
        guard: Guards the observation.
    """
    functions: Any = module
    original: Callable[..., None] = functions.record_compilation_metrics

    @functools.wraps(original)
    def record(*args: Any, **kwargs: Any) -> None:
        guard.guard(lambda: compilations.add(*_compilation(*args, **kwargs)))
        original(*args, **kwargs)

    functions.record_compilation_metrics = record
    for name in _BOUND_EARLY:
        context: Any = getattr(functions, name, None)
        if getattr(context, "_on_exit", None) is original:
            context._on_exit = record
