"""Observing `torch.compile`: what is compiled, how long it takes, and which guard made it happen.

Dynamo hands the figures of each compilation to `record_compilation_metrics`, with the failed guard
in words, whether or not its logging is on; nothing is printed and no logger is touched.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.meters import CompileTime
from stepwhy.capture.user_code import user_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from stepwhy.capture.recorder import Recorder
    from stepwhy.capture.torch.guard import Aside

# '0/1: tensor 'x' size mismatch...': which earlier compilation did not fit says nothing later.
_COMPILATION_NUMBER = re.compile(r"^\d+/\d+(_\d+)?: ")


class Compilations:
    """The compilations of this process.

    Args:
        recorder: Where their events go.

    Attributes:
        fresh: Whether there are some that no step has taken.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has compiled nothing (after a fork)."""
        self.fresh = False
        self._time = CompileTime()
        self._counts: dict[tuple[str, int], int] = {}

    def add(self, duration_ns: int, metrics: dict[str, Any]) -> None:
        """A compilation has ended.

        Args:
            duration_ns: How long it took.
            metrics: What dynamo says about it, under the names of `CompilationMetrics`.
        """
        end_ns = now_ns()
        start_ns = end_ns - duration_ns
        what = _what(metrics)
        self._time.add(what, start_ns, end_ns)
        self.fresh = True
        code = (str(metrics.get("co_filename")), metrics.get("co_firstlineno") or 0)
        self._counts[code] = count = self._counts.get(code, 0) + 1
        self._recorder.event(
            "compile",
            name=str(metrics.get("co_name") or what),
            start_ns=start_ns,
            end_ns=end_ns,
            reason=_reason(metrics.get("recompile_reason")),
            source=user_line(),
            count=count,
        )

    def take(self) -> str:
        """What a step's line says about the compilations since the last call."""
        self.fresh = False
        return self._time.take()


def _what(metrics: dict[str, Any]) -> str:
    """What was done, for the step that it happened in."""
    if metrics.get("is_runtime"):
        return "runtime tuning"
    if metrics.get("is_forward") is False:
        return "compile backward"
    return f"compile {metrics.get('co_name') or 'graph'}"


def _reason(said: Any) -> str:
    """The failed guard, without the path and the line of source that dynamo adds as a comment."""
    first = str(said).strip().partition("\n")[0] if said else ""
    return _COMPILATION_NUMBER.sub("", first.partition("  # ")[0]).strip()


def install(module: ModuleType, compilations: Compilations, aside: Aside) -> None:
    """Observe the compilations of a freshly imported `torch._dynamo.utils`.

    Args:
        module: That module.
        compilations: Takes note of them.
        aside: Guards this.
    """
    functions: Any = module
    original: Callable[..., None] = functions.record_compilation_metrics

    @functools.wraps(original)
    def record(start_ns: int, end_ns: int, metrics: dict[str, Any], *rest: Any) -> None:
        aside.guard(lambda: compilations.add(end_ns - start_ns, metrics))
        original(start_ns, end_ns, metrics, *rest)

    functions.record_compilation_metrics = record
