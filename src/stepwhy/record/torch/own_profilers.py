"""Track the training's own PyTorch profilers, log them, and yield to one that starts.

Kineto has one state per process: starting a second profiler raises in the first one, and stopping
one discards the trace of the other. A profiler therefore counts as active from its warm-up on,
which `_profiler_enabled` does not show.

Source: torch/autograd/profiler.py, `profile._prepare_trace`, `profile.__exit__`, `emit_nvtx`.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core import import_hooks
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled, wrapper
from stepwhy.record.core.process.losses import attempt
from stepwhy.record.core.user_code import user_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

    Call = Callable[..., Any]

MODULE = "torch.autograd.profiler"
# These enable a profiler at once, and `_profiler_enabled` shows them.
_ANNOTATORS = ("emit_nvtx", "emit_itt")
# What a profiler records beside operations, each at a cost.
_OPTIONS = ("with_stack", "record_shapes", "profile_memory", "with_modules", "with_flops")


class OwnProfilers:
    """The profilers of this process that are not stepwhy's."""

    def __init__(self) -> None:
        self._active: weakref.WeakKeyDictionary[Any, tuple[int, str]]
        self._active = weakref.WeakKeyDictionary()
        self._recorder: Recorder | None = None
        self._is_stepwhys = False
        self._listeners: list[Callable[[], None]] = []

    def watch(self, on_start: Callable[[], None], recorder: Recorder) -> None:
        """Track profilers from here on, or once PyTorch is imported.

        Args:
            on_start: Called before one starts; must not raise.
            recorder: Logs when they ran.
        """
        self._recorder = recorder
        self._listeners.append(on_start)
        if len(self._listeners) == 1:
            import_hooks.after_import(MODULE, self._try_to_instrument)

    def are_active(self) -> bool:
        """Whether the training profiles itself, or is about to."""
        from torch import autograd

        return bool(self._active) or bool(autograd._profiler_enabled())

    @contextlib.contextmanager
    def starting_stepwhys(self) -> Iterator[None]:
        """Context in which stepwhy's own profiler starts."""
        self._is_stepwhys = True
        try:
            yield
        finally:
            self._is_stepwhys = False

    def _try_to_instrument(self, module: ModuleType) -> None:
        attempt("profilers that the program starts itself", lambda: self._instrument(module))

    def _instrument(self, module: ModuleType) -> None:
        """Track the profilers of `torch.autograd.profiler`."""
        profile: Any = module.profile
        profile._prepare_trace = self._before(profile._prepare_trace, self._starts)
        profile.__exit__ = _after(profile.__exit__, self._ended)
        for name in _ANNOTATORS:
            annotator: Any = getattr(module, name, None)
            if annotator is not None:
                annotator.__enter__ = self._before(annotator.__enter__, lambda _: None)

    def _before(self, original: Call, note: Callable[[Any], None]) -> Call:
        """Wrap a method so that windows close before it."""

        @wrapper
        @functools.wraps(original)
        def alone(profiler: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_stepwhys:
                for on_start in self._listeners:
                    on_start()
                note(profiler)
            return original(profiler, *args, **kwargs)

        return alone

    @never_compiled
    def _starts(self, profiler: Any) -> None:
        self._active[profiler] = now_ns(), user_line()

    @never_compiled
    def _ended(self, profiler: Any) -> None:
        start_ns, source = self._active.pop(profiler, (0, ""))
        recorder = self._recorder
        if start_ns and recorder is not None:
            recorder.guard(lambda: _log(recorder, profiler, start_ns, source))


def _log(recorder: Recorder, profiler: Any, start_ns: int, source: str) -> None:
    """Log that a profiler ran, with the options that add to its cost."""
    options = ", ".join(name for name in _OPTIONS if getattr(profiler, name, False))
    recorder.event(
        "profiler",
        name="torch.profiler",
        start_ns=start_ns,
        end_ns=now_ns(),
        reason=options,
        source=source,
    )


def _after(original: Call, note: Callable[[Any], None]) -> Call:
    """Wrap a method after which the profiler is off, whatever it raises."""

    @wrapper
    @functools.wraps(original)
    def ended(profiler: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(profiler, *args, **kwargs)
        finally:
            note(profiler)

    return ended


@functools.cache
def own_profilers() -> OwnProfilers:
    """The tracker of this process."""
    return OwnProfilers()
