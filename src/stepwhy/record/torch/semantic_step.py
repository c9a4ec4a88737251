"""The semantic step: one step, after the traced window, whose operations are looked at one by one.

A dispatch mode notes what they read: which columns of a batch are padding, and what is computed
from constants alone. Constants are compared some steps later with what is left of them then, or
searched for in two of these steps if each step makes them anew, and columns of padding are counted
in the batches until then. If nothing in the step reads some of its results, the same steps are
watched for what reads them. The step takes up to a few times longer and counts as a profiled one;
what it computes is the same.
Where a mode could change the training, or another process would wait for it, there is no such step.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process import lifetime
from stepwhy.record.torch import cuda_graphs, gradient_use
from stepwhy.record.torch.dispatch_modes import StepMode
from stepwhy.record.torch.fresh_constants import FreshConstants
from stepwhy.record.torch.index_inputs import count_padding
from stepwhy.record.torch.repeated_hooks import RepeatedHooks
from stepwhy.record.torch.result_watch import ResultWatch
from stepwhy.record.torch.semantic_mode import StepNotes, StoppedError
from stepwhy.record.torch.semantic_obstacles import COMPILED, LACKING, current_mode, obstacles
from stepwhy.record.torch.separate_products import EVENT as SEPARATE
from stepwhy.record.torch.tensor_makers import EVENT as MADE
from stepwhy.record.torch.tensor_makers import forget_code, padding_lines
from stepwhy.record.watchers.batch_lines import EVENT as OF_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.torch.compilations import Compilations
    from stepwhy.record.torch.lasting_sources import LastingSources
    from stepwhy.record.torch.result_watch import Waste
    from stepwhy.record.torch.window import ProfilerWindow

FILE = "semantic.json"
SCHEMA = "stepwhy.semantic/1"
EVENT = "semantic-step"
"""Kind of the event that says why there is no such step."""
# A loop may be paused, or may fork, within the step; each time, a later step is used.
_MOST_ATTEMPTS = 3
# Until then, what differs from step to step has changed: a batch, or the state of something.
_STEPS_LATER = 4
_WATCHED = 2
"""The last of these steps, which are watched if the step made tensors that may be constants."""


class SemanticStep:
    """Looks at the operations of one step, at most once in a process.

    Args:
        recorder: Receives the file, or why there is none.
        window: The profiler windows, which come first.
        compilations: The compilations by `torch.compile`.

    Attributes:
        touched: Whether the current step is the semantic one, or the one in which its file was
            written, so that its time is not the training's own.
    """

    def __init__(
        self, recorder: Recorder, window: ProfilerWindow, compilations: Compilations
    ) -> None:
        self._recorder = recorder
        self._window = window
        self._compilations = compilations
        self._home = threading.get_ident()
        self._hook: Any = None
        self.hooks = RepeatedHooks(recorder)
        self.forget()
        lifetime.on_fork(self.give_up, lambda: None)
        lifetime.on_end(self.finish)

    def forget(self) -> None:
        """Start over, as in a process without such a step (after a fork)."""
        self.touched = False
        self._attempts = 0
        self._is_done = False
        self._mode: StepMode | None = None
        self._notes: StepNotes | None = None
        self._step = 0
        self._start_ns = 0
        self._fresh: FreshConstants | None = None
        self._results: ResultWatch | None = None
        self._waiting: tuple[dict[str, Any], StepNotes, LastingSources] | None = None
        self._ends_at = 0
        self._stop_counting()
        self.hooks.forget()

    @property
    def is_open(self) -> bool:
        """Whether a step is looked at, or the steps after it are, which each count."""
        return self.touched or self._waiting is not None

    @property
    def is_due(self) -> bool:
        """Whether `next_step` must be called for the step that begins."""
        if self.is_open:
            return True
        return not self._is_done and self._window.kept > 0 and not self._window.running

    def next_step(self, step: int, clock: Any) -> None:
        """A step begins: begin or end the semantic one; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            clock: The optimizer whose steps are counted, or what stands for one.
        """
        is_open, self.touched = self.is_open, False
        try:
            if is_open and cuda_graphs.is_any_captured():
                self.touched = True
                self._refuse(cuda_graphs.CAPTURED)
            elif self._mode is not None:
                self.touched = True
                self._end(step)
            elif self._waiting is not None:
                self._compare(step)
            elif not self._is_done:
                self._begin(step, clock)
        except Exception as error:
            self._refuse(f"it failed ({type(error).__name__})")

    def _begin(self, step: int, clock: Any) -> None:
        """Push the mode, unless something speaks against it."""
        state = list(_state_of(clock))
        reason = self._why_not(state)
        if reason:
            self._refuse(reason)
            return
        self._attempts += 1
        self._step, self._start_ns = step, now_ns()
        self._notes = StepNotes(state)
        self._results = ResultWatch(self._notes.results, self._notes.parts)
        self._mode = StepMode(self._notes.run)
        self.touched = True
        self.hooks.begin(clock)
        self._results.begin()
        self._mode.begin()

    def _why_not(self, state: list[Any]) -> str:
        """Why no step can be looked at; '' if one can."""
        if threading.get_ident() != self._home:
            return "the training runs in a thread that did not import torch"
        if self._compilations.any:
            return COMPILED
        try:
            return next((reason for reason, is_so in obstacles(state) if is_so), "")
        except (AttributeError, ImportError):
            return LACKING

    def _end(self, step: int) -> None:
        """Pop the mode, and write what it has noted."""
        notes = self._notes
        stopped = None if notes is None else notes.stopped
        if not self._pop() or notes is None:
            return  # a mode of the program lies above: the next step may end outside of it
        self._is_done = True
        notes.inputs.confirm_features()
        if stopped is not None:
            self._refuse(_why_stopped(stopped))
            return
        content = self._content(notes)
        self._recorder.keep(FILE, content)
        self._log_gradients(notes)
        self._log_makers(notes)
        for each in notes.separate.found:
            self._recorder.event(SEPARATE, name=each.op, source=each.line, count=each.runs,
                                 start_ns=(now := now_ns()), end_ns=now)  # fmt: skip
        self._waiting = content, notes, notes.lasting_sources()
        self._ends_at = step + _STEPS_LATER
        if notes.inputs.padded:
            self._hook = count_padding(notes.inputs)
        if self._results is not None:
            self._results.end_step()

    def _log_gradients(self, notes: StepNotes) -> None:
        """Log what was done with gradients that were recorded for a further backward pass."""
        found, now = notes.gradients, now_ns()
        if found.kind:
            self._recorder.event(
                gradient_use.EVENT, name=found.kind, source=found.line, start_ns=now, end_ns=now
            )

    def _log_makers(self, notes: StepNotes) -> None:
        """Log which lines make float64 tensors, and which pad the longest columns; never raises."""
        found = [("float64", each) for each in notes.makers.doubles]
        with contextlib.suppress(Exception):
            if notes.inputs.padded:
                longest = max(notes.inputs.padded, key=lambda each: each.padded)
                lines = padding_lines(longest.maker, longest.columns)
                found += [("padding", each) for each in lines]
        forget_code()
        for name, made in found:
            now = now_ns()
            self._recorder.event(
                MADE, name=name, reason=made.by, source=made.line, start_ns=now, end_ns=now
            )

    def _compare(self, step: int) -> None:
        """Some steps later, add to the file what has turned out to be constant, or padding."""
        if self._waiting is None:
            return
        content, notes, sources = self._waiting
        if step < self._ends_at:
            if self._hook is not None:
                self.touched = True
                notes.inputs.next_batch()
            self._watch(notes, self._ends_at - step)
            return
        self.touched = True
        if not self._stop_watching():
            return
        # Thousands of objects, which each later search of the garbage collector would visit.
        results, self._results = self._results, None
        waste = results.finish() if results is not None else None
        fresh, self._fresh = self._fresh, None
        self._waiting = None
        if self._hook is not None:
            self._stop_counting()
            notes.inputs.average()
            content = self._content(notes) | {"end_ns": content["end_ns"]}
        lasting = sources.still_equal() | sum(1 << place for place in (fresh.left if fresh else ()))
        lines = notes.constant_lines(lasting)
        for line in notes.batch_lines(lasting):
            now = now_ns()
            self._recorder.event(OF_BATCH, name="step", source=line, start_ns=now, end_ns=now)
        known = {} if waste is None else _wasted(waste)
        known |= {"zeros": notes.zeros.rows(lasting)}
        self._recorder.keep(FILE, {**content, "lines": notes.lines, "constant": lines, **known})

    def _watch(self, notes: StepNotes, left: int) -> None:
        """Watch for what reads results, and the last steps until then for constants made anew.

        Args:
            notes: Of the semantic step.
            left: Steps until the sources are compared.
        """
        if left == _WATCHED:
            known = notes.fresh_sources()
            self._fresh = FreshConstants(known) if known else None
        is_watched = self._results is not None and self._results.is_watching
        if self._fresh is None and not is_watched:
            return
        self.touched = True
        if not self._stop_watching() or self._why_not([]):
            self._give_up_watching()
            return
        if self._results is not None:
            self._results.next_step()
        if self._fresh is not None:
            self._fresh.begin()

    def _stop_watching(self) -> bool:
        """Remove the modes that watch a step, if they are on top of the stack of this thread."""
        is_fresh_gone = self._fresh is None or self._fresh.end(current_mode())
        return is_fresh_gone and (self._results is None or self._results.end(current_mode()))

    def _give_up_watching(self) -> None:
        """Watch no further, and find nothing by that; never raises."""
        for watch in (self._fresh, self._results):
            with contextlib.suppress(Exception):
                if watch is not None:
                    watch.give_up(current_mode())

    def _content(self, notes: StepNotes) -> dict[str, Any]:
        inputs = [
            {
                "op": found.op,
                "line": found.line,
                "rows": found.rows,
                "columns": found.columns,
                "padded": found.padded,
                "at_start": found.at_start,
            }
            for found in notes.inputs.all
        ]
        return {
            "schema": SCHEMA,
            "step": self._step,
            "start_ns": self._start_ns,
            "end_ns": now_ns(),
            "names": notes.names,
            "ops": notes.ops,
            "padding": notes.paddings() if notes.inputs.padded else [],
            "inputs": inputs,
            "subnormal": notes.subnormals.found,
            "repeated": notes.repeats.found,
            "zeros": notes.zeros.rows(),
            "zero_makers": notes.zeros.makers,
        }

    def _stop_counting(self) -> None:
        """Count no more columns of padding; never raises."""
        hook, self._hook = self._hook, None
        if hook is not None:
            with contextlib.suppress(Exception):
                hook.remove()

    def _refuse(self, reason: str) -> None:
        """Leave out the step for good, and record why; never raises."""
        self._is_done = True
        self._waiting = None
        self._stop_counting()
        self._give_up_watching()
        with contextlib.suppress(Exception):
            self._pop()
        at_ns = now_ns()
        self._recorder.event(EVENT, name="refused", start_ns=at_ns, end_ns=at_ns, reason=reason)

    def give_up(self) -> None:
        """Leave the step in the middle, and try another one later, a few times; never raises.

        The loop is paused, or its process forks.
        """
        if threading.get_ident() != self._home:
            return
        self._give_up_watching()
        if self._mode is None:
            return
        with contextlib.suppress(Exception):
            self._pop()
        if self._attempts >= _MOST_ATTEMPTS:
            self._refuse("the training forks, or pauses, in each step")

    def finish(self) -> None:
        """No further step comes: remove the mode; never raises."""
        self._stop_counting()
        self._give_up_watching()
        with contextlib.suppress(Exception):
            self._pop()
        self._is_done = True

    def _pop(self) -> bool:
        """Remove the mode from the stack of this thread, if it is on top."""
        mode, notes = self._mode, self._notes
        if mode is None:
            return True
        if notes is not None and notes.stopped is None:
            notes.stopped = _ended
        if not mode.end(current_mode()):
            return False
        self.hooks.end()
        self._mode = self._notes = None
        return True


def _wasted(waste: Waste) -> dict[str, Any]:
    """What of the results nothing reads, as it is written."""
    parts = waste.parts
    if parts is None:
        return {"unread": waste.unread}
    return {
        "unread": waste.unread,
        "unused": [round(1000 * share) for share in parts.shares],
        "choice": parts.places,
        "choices": [choice._asdict() for choice in parts.choices],
    }


_ended = StoppedError("it has ended")


def _why_stopped(error: Exception) -> str:
    if error is _ended:
        return "the program used a dispatch mode of its own at the end of a step"
    if isinstance(error, StoppedError):
        return str(error)
    return f"it failed ({type(error).__name__})"


def _state_of(clock: Any) -> Iterator[Any]:
    """Parameters and state of an optimizer."""
    import torch

    for group in getattr(clock, "param_groups", ()):
        yield from group["params"]
    for values in list(getattr(clock, "state", {}).values()):
        if isinstance(values, dict):
            yield from (v for v in values.values() if isinstance(v, torch.Tensor))
