"""Log `DataLoader`s: their configuration, epochs, workers, and the number of batches ready.

Source of the attributes read here: `torch/utils/data/dataloader.py`, versions 1.13 to 2.13.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import wrapper
from stepwhy.record.core.pacing import SamplingPace
from stepwhy.record.core.process.losses import attempt
from stepwhy.record.core.user_code import user_call, user_line
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.torch.item_functions import (
    CHANGING,
    EVENT,
    changing_lines,
    stable_functions,
)
from stepwhy.record.watchers.iterators import Iterators

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepwhy.record.core.observation_guard import ObservationGuard
    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.steps.meters import InputWait

# Tiny epochs must not fill the event log.
_MOST_EVENTS = 400
_KIND = "dataloader"
_REQUESTED = "_stepwhy_requested_ns"
_MADE = "_stepwhy_made"
_ORDER = "_stepwhy_order_ns"


class Loaders:
    """The data loaders of this process.

    Args:
        recorder: Writes their log.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._iterators = Iterators(recorder)
        self._made: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has seen no loader (after a fork)."""
        self._iterators.forget()
        self._names: dict[tuple[Any, ...], str] = {}
        self._epochs: dict[str, int] = {}
        self._events = 0
        self._pace = SamplingPace()
        self._is_next_due = False
        self._countable = True

    def made(self, loader: Any) -> None:
        """The program has made a loader: note where, and how its call is written."""
        self._made[loader] = user_call(type(loader).__name__)

    def name(self, loader: Any) -> str:
        """The name of a loader, shared by all with the same configuration, which is logged once."""
        about = _configuration(loader)
        key = tuple(about.values())
        if key not in self._names:
            same = sum(k[0] == about["dataset"] for k in self._names)
            self._names[key] = about["dataset"] + (f" {same + 1}" if same else "")
            self._recorder.loader({"name": self._names[key], "time_ns": now_ns(), **about})
            self._recorder.made(self._names[key], self._made.get(loader, ("", "")))
            attempt("functions of a data set", lambda: self._note_functions(loader))
        return self._names[key]

    def _note_functions(self, loader: Any) -> None:
        """Log which functions return the same for an element in each epoch, and which do not."""
        name, now = self._names[tuple(_configuration(loader).values())], now_ns()
        for kind, of in ((EVENT, stable_functions), (CHANGING, changing_lines)):
            reason = "\n".join(of(loader.dataset))
            if reason:
                self._recorder.event(kind, name=name, start_ns=now, end_ns=now, reason=reason)

    def began_epoch(self, loader: Any, iterator: Any, start_ns: int) -> None:
        """A loader was asked for an iterator at `start_ns`."""
        _ = iterator._num_yielded, iterator._num_workers  # read later, in the path of the training
        name = self.name(loader)
        replaces = self._iterators.replaces(name)
        line = user_line() if replaces or self._events < _MOST_EVENTS else ""
        setattr(iterator, _REQUESTED, (start_ns, name, line))
        setattr(iterator, _MADE, (line if replaces else "", now_ns()))

    def started_workers(self, loader: Any, start_ns: int) -> None:
        """A loader has started its workers."""
        if loader.num_workers:
            self._event("workers", self.name(loader), start_ns, count=loader.num_workers)

    def got_first_batch(self, iterator: Any) -> None:
        """The first batch of an epoch has arrived, or the end of an empty epoch."""
        start_ns, name, source = getattr(iterator, _REQUESTED, (0, "", ""))
        if not start_ns:
            return  # the iterator is older than the observation
        self._epochs[name] = self._epochs.get(name, 0) + 1
        self._event("epoch", name, start_ns, count=self._epochs[name], source=source)
        line, made_ns = getattr(iterator, _MADE, ("", start_ns))
        # The work on a batch is needed with any iterator; workers work ahead on more than that.
        order_ns = getattr(iterator, _ORDER, 0)
        ready_ns = now_ns() if iterator._num_workers else made_ns + order_ns
        self._iterators.began(name, name, line, start_ns, ready_ns)

    def ended_epoch(self, iterator: Any) -> None:
        """An iterator has returned all of its batches."""
        self._iterators.ended(getattr(iterator, _REQUESTED, (0, "", ""))[1])

    def _event(self, kind: str, name: str, start_ns: int, *, count: int, source: str = "") -> None:
        self._events += 1
        if self._events <= _MOST_EVENTS:
            self._recorder.event(
                kind, name=name, start_ns=start_ns, end_ns=now_ns(), source=source, count=count
            )

    def sample(self, iterator: Any, time_ns: int) -> None:
        """Log, at growing intervals, how many batches of an iterator's workers are ready.

        Batches of several workers come in bursts, so the next request is sampled as well: the first
        one that is due may always be the one after a long wait.
        """
        is_due = self._is_next_due or self._pace.due(time_ns)
        self._is_next_due = is_due and not self._is_next_due
        if iterator._num_workers and self._countable and is_due:
            try:
                ready = batches_ready(iterator)
            except NotImplementedError:
                self._countable = False
                return
            capacity = iterator._prefetch_factor * iterator._num_workers
            name = getattr(iterator, _REQUESTED, (0, _KIND))[1]
            self._recorder.level(_KIND, name, ready, capacity)


def batches_ready(iterator: Any) -> int:
    """Number of batches made by the workers and not yet consumed by the loop.

    Args:
        iterator: A `_MultiProcessingDataLoaderIter`.

    Raises:
        NotImplementedError: The system does not report the length of a queue (macOS).
    """
    early = sum(len(task) > 1 for task in list(iterator._task_info.values()))
    return early + int(iterator._data_queue.qsize())


def _configuration(loader: Any) -> dict[str, Any]:
    """The configuration of a loader; settings that do not apply are None."""
    batch_size = loader.batch_size
    if batch_size is None:
        batch_size = getattr(loader.batch_sampler, "batch_size", None)
    workers = loader.num_workers
    return {
        "dataset": type(loader.dataset).__name__,
        "sampler": type(loader.sampler).__name__,
        "batch_size": batch_size if isinstance(batch_size, int) else None,
        "workers": workers,
        "prefetch_factor": loader.prefetch_factor if workers else None,
        "persistent_workers": bool(loader.persistent_workers),
        "pin_memory": bool(loader.pin_memory),
    }


def instrument(
    module: ModuleType, guard: ObservationGuard, loaders: Loaders, waits: InputWait
) -> None:
    """Log the loaders of `torch.utils.data.dataloader`, and time the waits for their batches.

    Fetching a batch counts as waiting. So does starting an epoch, which may start the workers.

    Args:
        module: That module.
        guard: Guards the log of the loaders.
        loaders: Logs them.
        waits: Adds up the waits.
    """
    attempt(
        "epochs and workers of PyTorch's data loaders",
        lambda: _observe_epochs(module.DataLoader, guard, loaders, waits),
    )
    attempt(
        "calls that make PyTorch's data loaders",
        lambda: _observe_calls(module.DataLoader, guard, loaders),
    )
    attempt(
        "waits for batches of PyTorch's data loaders",
        lambda: _observe_batches(module._BaseDataLoaderIter, guard, loaders, waits),
    )


def _observe_calls(base: Any, guard: ObservationGuard, loaders: Loaders) -> None:
    """Note how the program makes its loaders."""
    make = base.__init__

    @wrapper
    @wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        guard.guard(lambda: loaders.made(self))

    base.__init__ = init


def _observe_epochs(base: Any, guard: ObservationGuard, loaders: Loaders, waits: InputWait) -> None:
    """Log the starts of epochs and of workers."""
    make, begin = base._get_iterator, base.__iter__

    @wrapper
    @functools.wraps(make)
    def get_iterator(self: Any) -> Any:
        start_ns = now_ns()
        iterator = make(self)
        guard.guard(lambda: loaders.started_workers(self, start_ns))
        return iterator

    @wrapper
    @functools.wraps(begin)
    def iterate(self: Any) -> Any:
        start_ns = now_ns()
        try:
            iterator = begin(self)
        finally:
            waits.add(now_ns() - start_ns)
        guard.guard(lambda: loaders.began_epoch(self, iterator, start_ns))
        return iterator

    base._get_iterator, base.__iter__ = get_iterator, iterate


def _observe_batches(
    base: Any, guard: ObservationGuard, loaders: Loaders, waits: InputWait
) -> None:
    """Time the waits for batches, and count the batches ready when the loop asks.

    The attributes of an iterator are private: without them, the waits are still timed.
    """
    fetch = base.__next__

    @wrapper
    def timed(self: Any) -> Any:
        first = not getattr(self, "_num_yielded", True)
        if waits.light and not first:
            return fetch(self)
        start_ns = now_ns()
        if not first and getattr(self, "_num_workers", None):
            guard.guard(lambda: loaders.sample(self, start_ns))
        try:
            return fetch(self)
        finally:
            waits.add(now_ns() - start_ns)
            if first:
                guard.guard(lambda: loaders.got_first_batch(self))

    @wrapper
    @functools.wraps(fetch)
    def next_batch(self: Any) -> Any:
        try:
            return timed(self)
        except StopIteration:
            guard.guard(lambda: loaders.ended_epoch(self))
            raise

    base.__next__ = next_batch
    attempt("the order of PyTorch's data loaders", lambda: _observe_order(base, guard))


def _observe_order(base: Any, guard: ObservationGuard) -> None:
    """Time how long a loader without workers takes for its first index: a sampler shuffles then."""
    next_index = base._next_index

    @wrapper
    @functools.wraps(next_index)
    def timed_index(self: Any) -> Any:
        if getattr(self, "_num_yielded", True) or getattr(self, "_num_workers", True):
            return next_index(self)
        start_ns = now_ns()
        index = next_index(self)
        order_ns = now_ns() - start_ns
        guard.guard(lambda: setattr(self, _ORDER, order_ns))
        return index

    base._next_index = timed_index
