"""Count the hooks on what a step uses: modules, parameters and the optimizer.

A program that registers its hooks in each step or epoch has more and more of them. The semantic
step notes which modules it calls, by a hook of its own; they are counted at its end, when the step
time has changed for good, and at the end. Where there was no such step, all modules that exist when
the step time changes for the first time count. Logged is, for each hook that some object has more
than once, how often: hooks are the same if they run the same code. From then on, the lines that
register hooks are noted, up to a limit.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.user_code import code_line, user_line
from stepwhy.record.torch.module_names import outermost_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

EVENT = "hooks"
_KINDS = {
    "_forward_pre_hooks": "forward hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward hook",
    "_backward_hooks": "backward hook",
    "_post_accumulate_grad_hooks": "backward hook",
    "_optimizer_step_pre_hooks": "optimizer hook",
    "_optimizer_step_post_hooks": "optimizer hook",
}
"""Dictionaries of hooks, by the attribute of a module, tensor or optimizer."""
_MOST_OBJECTS = 10_000
_MOST_LOGGED = 4
_MOST_NOTED = 256  # registrations


class RepeatedHooks:
    """The hooks of one process.

    Args:
        recorder: Writes the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._hook: Any = None
        self.forget()
        lifetime.on_end(self.log)

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        self._stop()
        self._used: dict[int, weakref.ref[Any]] = {}
        self._logged: Counter[tuple[str, str]] = Counter()
        self._lines: dict[int, str] = {}
        self._first: Counter[tuple[str, str]] | None = None
        self._knows_modules = False

    def begin(self, clock: Any) -> None:
        """A step begins whose modules are noted; never raises.

        Args:
            clock: The optimizer, or what stands for one.
        """
        with contextlib.suppress(Exception):
            from torch.nn.modules import module

            if getattr(clock, "param_groups", ()):
                self._note(clock)
            self._hook = module.register_module_forward_pre_hook(self._called)
            self._knows_modules = True

    def end(self) -> None:
        """The step has ended: count the hooks; never raises."""
        if self._hook is not None:
            self._stop()
            self.log()

    def step_time_changed(self) -> None:
        """Count again; never raises."""
        with contextlib.suppress(Exception):
            if not self._knows_modules:
                self._knows_modules = True  # to search takes a tenth of a second
                for _, module in outermost_modules():
                    for each in module.modules():
                        self._note(each)
        self.log()

    @never_compiled
    def _called(self, module: Any, _: Any) -> None:
        """A module is called; never raises."""
        with contextlib.suppress(Exception):
            self._note(module)

    def _note(self, used: Any) -> None:
        if id(used) not in self._used and len(self._used) < _MOST_OBJECTS:
            self._used[id(used)] = weakref.ref(used)

    def _stop(self) -> None:
        hook, self._hook = self._hook, None
        if hook is not None:
            with contextlib.suppress(Exception):
                hook.remove()

    def log(self) -> None:
        """Log the hooks that an object has more than once, if they have become more; never raises.

        The number is the largest on any one object. Of a hook that is logged for the first time,
        the number that was counted first comes before it.
        """
        with contextlib.suppress(Exception):
            if not self._knows_modules:
                return
            most: Counter[tuple[str, str]] = Counter()
            lines: dict[tuple[str, str], str] = {}
            noted = [found for ref in self._used.values() if (found := ref()) is not None]
            for used in (part for each in noted for part in (each, *_parameters_of(each))):
                hooks = list(_hooks_of(used))
                lines.update((key, self._lines[at]) for at, key in hooks if at in self._lines)
                for key, count in Counter(key for _, key in hooks).items():
                    most[key] = max(most[key], count)
            if self._first is None:
                self._first = most
            for key, count in most.most_common(_MOST_LOGGED):
                if count > max(self._logged[key], 1):
                    is_new = not self._logged[key] and count > self._first[key]
                    for number in (self._first[key], count) if is_new else (count,):
                        self._write(*key, number, lines.get(key, ""))
                    self._logged[key] = count
            if self._logged and not self._lines:
                self._note_lines()

    def _write(self, name: str, source: str, count: int, line: str) -> None:
        """Log how often a hook is registered, and the line that does so, if known."""
        at_ns = now_ns()
        self._recorder.event(
            EVENT, name=name, source=source, start_ns=at_ns, end_ns=at_ns, count=count, reason=line
        )

    def _note_lines(self) -> None:
        """Note the lines of the next registrations."""
        from torch.utils.hooks import RemovableHandle

        original, lines = RemovableHandle.__init__, self._lines

        @never_compiled
        @functools.wraps(original)
        def init(handle: Any, *args: Any, **kwargs: Any) -> None:
            original(handle, *args, **kwargs)
            with contextlib.suppress(Exception):
                lines[handle.id] = user_line()
                if len(lines) >= _MOST_NOTED:
                    RemovableHandle.__init__ = original

        lines[-1] = ""  # no handle has this number
        RemovableHandle.__init__ = init


def _parameters_of(noted: Any) -> Iterator[Any]:
    """The parameters of an optimizer or module: PyTorch swaps none that has a weak reference."""
    from torch.nn import Module

    for group in getattr(noted, "param_groups", ()):
        yield from group["params"]
    if isinstance(noted, Module):
        yield from Module.parameters(noted, recurse=False)


def _hooks_of(used: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    """Number of the handle, kind and line of each hook of the program on what a step uses."""
    for name, kind in _KINDS.items():
        for number, hook in list((getattr(used, name, None) or {}).items()):
            while hasattr(hook, "func"):
                hook = hook.func  # noqa: PLW2901 - of functools.partial
            if line := code_line(hook):
                yield number, (kind, line)
