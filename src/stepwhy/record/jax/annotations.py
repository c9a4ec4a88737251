"""Log the `jax.profiler.StepTraceAnnotation`s with which a JAX program marks its steps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.record.jax.loop import calls_of, profiler

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def observe_annotations(module: ModuleType, run_dir: str) -> None:
    """Log the step annotations of `jax._src.profiler`."""
    calls = calls_of(run_dir)
    annotation: Any = module.StepTraceAnnotation
    make, enter, leave = annotation.__init__, annotation.__enter__, annotation.__exit__

    def begin(name: str) -> int | None:
        profiler().annotated = True
        number = calls.number(("annotation", name))
        return number if calls.begin(number) else None

    @functools.wraps(make)
    def init(self: Any, name: str, *args: Any, **kwargs: Any) -> None:
        make(self, name, *args, **kwargs)
        self._stepwhy_name = name

    @functools.wraps(enter)
    def observed_enter(self: Any) -> Any:
        self._stepwhy_number = calls.loop.guard(lambda: begin(self._stepwhy_name))
        return enter(self)

    @functools.wraps(leave)
    def observed_exit(self: Any, *args: Any) -> Any:
        result = leave(self, *args)
        number = getattr(self, "_stepwhy_number", None)  # it may be older than the observation
        if number is not None:
            calls.end(number, failed=bool(args) and args[0] is not None)
        return result

    annotation.__init__ = init
    annotation.__enter__ = observed_enter
    annotation.__exit__ = observed_exit
