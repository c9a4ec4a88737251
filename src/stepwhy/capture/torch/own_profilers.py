"""The training's own profilers of PyTorch: whether one is on, and making room for one that starts.

Kineto has one state for the whole process. A second profiler that starts raises in the one that
was there first, and one that stops takes the other's trace with it; from its warm-up on, which
`_profiler_enabled` does not show, a profiler therefore counts as being on.

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
# They enable a profiler at once, and `_profiler_enabled` shows them.
_ANNOTATORS = ("emit_nvtx", "emit_itt")


class Profilers:
    """Follows the profilers of this process that are not stepwhy's."""

    def __init__(self) -> None:
        self._on: weakref.WeakSet[Any] = weakref.WeakSet()
        self._ours = False
        self._give_way: list[Callable[[], None]] = []

    def watch(self, give_way: Callable[[], None]) -> None:
        """Follow them from here on, or once there are any.

        Args:
            give_way: Called before one starts; must not raise.
        """
        self._give_way.append(give_way)
        if len(self._give_way) == 1:
            import_hooks.after_import(MODULE, self._install)

    def are_on(self) -> bool:
        """Whether the training profiles itself, or is about to."""
        from torch import autograd

        return bool(self._on) or bool(autograd._profiler_enabled())  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def starting_ours(self) -> Iterator[None]:
        """What starts in here is stepwhy's own profiler."""
        self._ours = True
        try:
            yield
        finally:
            self._ours = False

    def _install(self, module: ModuleType) -> None:
        """Follow the profilers of `torch.autograd.profiler`."""
        profile: Any = module.profile
        profile._prepare_trace = self._before(profile._prepare_trace, self._starts)
        profile.__exit__ = _after(profile.__exit__, self._on.discard)
        for name in _ANNOTATORS:
            annotator: Any = getattr(module, name, None)
            if annotator is not None:
                annotator.__enter__ = self._before(annotator.__enter__, lambda _: None)

    def _before(self, original: Call, note: Callable[[Any], None]) -> Call:
        """A method before which the windows give way."""

        @functools.wraps(original)
        def alone(profiler: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._ours:
                for give_way in self._give_way:
                    give_way()
                note(profiler)
            return original(profiler, *args, **kwargs)

        return alone

    def _starts(self, profiler: Any) -> None:
        self._on.add(profiler)


def _after(original: Call, note: Callable[[Any], None]) -> Call:
    """A method after which the profiler is off, whatever it raises."""

    @functools.wraps(original)
    def ended(profiler: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(profiler, *args, **kwargs)
        finally:
            note(profiler)

    return ended
