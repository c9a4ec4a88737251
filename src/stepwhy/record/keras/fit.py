"""Log the steps of Keras' `fit`: a step is one batch, and starts at the end of the previous one.

The events come from `CallbackList`, which `fit` drives on every backend. The training's callbacks,
their order, its history and its progress bar stay as they are. On the TensorFlow and JAX backends
the batch is fetched inside the call that trains on it, so only the profiler shows the input wait.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.settings import note_fit
from stepwhy.record.core.user_code import code_line, user_call
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.keras.backend import backend, loop_of
from stepwhy.record.keras.batches import log_batch
from stepwhy.record.keras.evaluations import compile_of, log_of
from stepwhy.record.steps.loop import KnownSteps, no_marker
from stepwhy.record.steps.meters import UNKNOWN
from stepwhy.record.steps.step_marks import marks
from stepwhy.record.watchers.saving import observe_keepers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.steps.loop import Loop

    Call = Callable[..., Any]
    Event = Callable[["FitObserver", Loop, Any, Any], None]


# A program that calls `fit` for each batch, or for a few: so many calls in a row with few steps.
_SHORT_FITS = 3
_FEW_STEPS = 8


class FitObserver:
    """Turn the events of `fit` into steps.

    Args:
        run_dir: The run directory, absolute.

    Attributes:
        noted: Id of the `CallbackList` whose steps are only noted; 0 for none.
        note: Ends such a step, see `KnownSteps.note`.
    """

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._loop: Loop | None = None
        self._waits_between = False
        self._ended_ns = 0
        self._wait_ns = UNKNOWN
        self._first = 0
        self._warned = False
        self._fit: weakref.ref[Any] | None = None
        self._steps_before = self._short_fits = 0
        self.noted = 0
        self.note: Callable[[], bool]

    def after_batch(self, callbacks: Any, batch: Any) -> None:
        """A batch has ended, which could not be noted only; never raises."""
        if self.noted:
            self.noted, self._first = 0, batch
        self.handle(FitObserver.batch_ends, callbacks, batch)

    def handle(self, event: Event, callbacks: Any, value: Any) -> None:
        """Pass on an event of `fit` from the thread that drives the loop; never raises.

        Args:
            event: One of the methods below.
            callbacks: The `CallbackList`.
            value: Number of the epoch or batch.
        """
        try:
            loop = self._loop or self._begin()
        except Exception:
            return
        if marks.marker is not None or not loop.recorder.alive or not loop.drives():
            return
        try:
            event(self, loop, callbacks, value)
        except Exception as error:
            loop.stop(error)

    def _begin(self) -> Loop:
        """Prepare at the first event: only now is the backend known for certain."""
        self._loop = loop_of(self._run_dir)
        self._steps = KnownSteps(self._loop)
        self.note = self._steps.note
        # On this backend Python fetches the batch before it begins it.
        self._waits_between = backend() == "torch"
        return self._loop

    def epoch_begins(self, loop: Loop, callbacks: Any, _: Any) -> None:
        """Begin the steps of an epoch; calls of compiled functions are parts of them."""
        # Weakly: a `fit` that raises ends no epoch, but its `CallbackList` is deleted.
        loop.marker = weakref.ref(callbacks, functools.partial(self._on_abort, loop))
        if self._fit is None or self._fit() is not callbacks:
            self._fit = weakref.ref(callbacks)
            self._steps_before = loop.known_steps
            note_fit(getattr(callbacks, "model", None))
            loop.recorder.made("fit", user_call("fit"))
            loop.recorder.made("compile", compile_of(getattr(callbacks, "model", None)))
            log_batch(loop.recorder)  # later iterators of this `fit` are those of its validation
            log_repeated(loop.recorder, callbacks)
        marks.in_fit = True
        self.noted = 0
        self._steps.begin()
        self._ended_ns = now_ns()

    def batch_begins(self, loop: Loop, _: Any, batch: Any) -> None:
        """Begin a batch."""
        self._first = int(batch)
        if self._waits_between and not loop.light:
            self._wait_ns = now_ns() - self._ended_ns
        self._steps.begin_work()

    def batch_ends(self, loop: Loop, callbacks: Any, batch: Any) -> None:
        """End a batch; its callbacks have run, too."""
        batches = int(batch) - self._first + 1
        self._steps.end_step(self._wait_ns, batches)
        if self._waits_between and not loop.light:
            self._ended_ns = now_ns()
        self.noted = id(callbacks) if loop.only_notes else 0
        if batches > 1 and not self._warned:
            self._warned = True
            text = f"an observed step is a call that trains on {batches} batches"
            loop.recorder.message("warning", "several-batches", f"{text} (steps_per_execution)")

    def epoch_ends(self, loop: Loop, _: Any, __: Any) -> None:
        """End the steps: what follows is no training."""
        self.noted = 0
        loop.marker = no_marker
        marks.in_fit = False
        self._steps.end()

    def _on_abort(self, loop: Loop, fit: object) -> None:
        """A `fit` was aborted: no further step comes, so close its window."""
        if loop.marker is fit:
            loop.marker = no_marker
            self.noted, loop.only_notes = 0, False
            marks.in_fit = False
            loop.window.finish()

    def fit_ends(self, loop: Loop, _: Any, __: Any) -> None:
        """Close the window: no further step comes, except where each `fit` has a few."""
        steps = loop.known_steps - self._steps_before
        self._short_fits = self._short_fits + 1 if steps < _FEW_STEPS else 0
        if self._short_fits < _SHORT_FITS:
            loop.window.finish()
        else:
            loop.window.check_age()  # no window would ever have its steps


_repeated: Counter[type] = Counter()


def log_repeated(recorder: Recorder, callbacks: Any) -> None:
    """Log callbacks of the program that `fit` has more than once, by their class; never raises.

    Each number is logged once.
    """
    with contextlib.suppress(Exception):
        for kind, count in Counter(map(type, callbacks.callbacks)).items():
            methods = (code_line(each) for each in vars(kind).values() if callable(each))
            line = next(filter(None, methods), "") if count > max(_repeated[kind], 1) else ""
            if line:
                _repeated[kind] = count
                now = now_ns()
                recorder.event("hooks", name=f"callback {kind.__name__}", source=line, start_ns=now,
                               end_ns=now, count=count)  # fmt: skip


def observe_fit(module: ModuleType, run_dir: str) -> None:
    """Log the steps of `fit`.

    Args:
        module: `keras.src.callbacks.callback_list`, or `tf_keras.src.callbacks`.
        run_dir: The run directory, absolute.
    """
    observer = FitObserver(run_dir)

    def handler(event: Event) -> Call:
        return functools.partial(observer.handle, event)

    events = module.CallbackList
    _observe(events, "on_epoch_begin", after=handler(FitObserver.epoch_begins))
    _observe_batches(events, observer)
    _observe(events, "on_epoch_end", before=handler(FitObserver.epoch_ends))
    _observe(events, "on_train_end", before=handler(FitObserver.fit_ends))
    observe_keepers(module, run_dir)  # legacy Keras has all callbacks in one module
    evaluations = log_of(run_dir)
    for name in ("on_test_batch_end", "on_predict_batch_end"):
        if hasattr(events, name):
            _observe(events, name, after=evaluations.batch_ended)


def _observe_batches(events: Any, observer: FitObserver) -> None:
    """Log the batches that a `CallbackList` hears of, with few calls where they are only noted."""
    begin, end = events.on_train_batch_begin, events.on_train_batch_end
    batch_begins = functools.partial(observer.handle, FitObserver.batch_begins)

    @wraps(begin)
    def on_train_batch_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        if observer.noted != id(self):
            batch_begins(self, _first(args, kwargs))
        return begin(self, *args, **kwargs)

    @wraps(end)
    def on_train_batch_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = end(self, *args, **kwargs)
        if observer.noted != id(self) or marks.marker is not None or not observer.note():
            observer.after_batch(self, _first(args, kwargs))
        return result

    events.on_train_batch_begin = on_train_batch_begin
    events.on_train_batch_end = on_train_batch_end


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The first argument of a call: the number of the epoch or batch."""
    return args[0] if args else next(iter(kwargs.values()), 0)


def _ignore(_: Any, __: Any) -> None:
    """Handle no event."""


def _observe(owner: Any, name: str, before: Call = _ignore, after: Call = _ignore) -> None:
    """Call a handler before a method, or after it returns, with the method's first argument."""
    original = getattr(owner, name)

    @wraps(original)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = _first(args, kwargs)
        before(self, value)
        result = original(self, *args, **kwargs)
        after(self, value)
        return result

    setattr(owner, name, observed)
