"""Track the training's own PyTorch profilers, and yield to one that starts.

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

from stepwhy.capture import import_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]

MODULE = "torch.autograd.profiler"
# These enable a profiler at once, and `_profiler_enabled` shows them.
_ANNOTATORS = ("emit_nvtx", "emit_itt")


class OwnProfilers:
    """The profilers of this process that are not stepwhy's."""

    def __init__(self) -> None:
        self._active: weakref.WeakSet[Any] = weakref.WeakSet()
        self._is_stepwhys = False
        self._listeners: list[Callable[[], None]] = []

    def watch(self, on_start: Callable[[], None]) -> None:
        """Track profilers from here on, or once PyTorch is imported.

        Args:
            on_start: Called before one starts; must not raise.
        """
        self._listeners.append(on_start)
        if len(self._listeners) == 1:
            import_hooks.after_import(MODULE, self._instrument)

    def are_active(self) -> bool:
        """Whether the training profiles itself, or is about to."""
        from torch import autograd

        return bool(self._active) or bool(autograd._profiler_enabled())  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def starting_stepwhys(self) -> Iterator[None]:
        """Context in which stepwhy's own profiler starts."""
        self._is_stepwhys = True
        try:
            yield
        finally:
            self._is_stepwhys = False

    def _instrument(self, module: ModuleType) -> None:
        """Track the profilers of `torch.autograd.profiler`."""
        profile: Any = module.profile
        profile._prepare_trace = self._before(profile._prepare_trace, self._starts)
        profile.__exit__ = _after(profile.__exit__, self._active.discard)
        for name in _ANNOTATORS:
            annotator: Any = getattr(module, name, None)
            if annotator is not None:
                annotator.__enter__ = self._before(annotator.__enter__, lambda _: None)

    def _before(self, original: Call, note: Callable[[Any], None]) -> Call:
        """Wrap a method so that windows close before it."""

        @functools.wraps(original)
        def alone(profiler: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_stepwhys:
                for on_start in self._listeners:
                    on_start()
                note(profiler)
            return original(profiler, *args, **kwargs)

        return alone

    def _starts(self, profiler: Any) -> None:
        self._active.add(profiler)


def _after(original: Call, note: Callable[[Any], None]) -> Call:
    """Wrap a method after which the profiler is off, whatever it raises."""

    @functools.wraps(original)
    def ended(profiler: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(profiler, *args, **kwargs)
        finally:
            note(profiler)

    return ended
