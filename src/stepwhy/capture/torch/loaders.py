"""Observing `DataLoader`s: their set-up, their epochs, their workers and how many batches wait.

Source of the attributes read here: `torch/utils/data/dataloader.py`, versions 1.13 to 2.13.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.pacing import Ration

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepwhy.capture.recorder import Recorder
    from stepwhy.capture.torch.guard import Aside
    from stepwhy.capture.torch.input_wait import InputWait

# A program with tiny epochs must not fill the log of events with them.
_MOST_EVENTS = 400
_KIND = "dataloader"
_ASKED = "_stepwhy_asked_ns"


class Loaders:
    """What is noted about the loaders of this process.

    Args:
        recorder: Where it goes.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has seen no loader (after a fork)."""
        self._names: dict[tuple[Any, ...], str] = {}
        self._epochs: dict[str, int] = {}
        self._events = 0
        self._ration = Ration()
        self._countable = True

    def name(self, loader: Any) -> str:
        """The name of a loader, the same for all that are set up alike; it is logged once."""
        about = _set_up(loader)
        key = tuple(about.values())
        if key not in self._names:
            same = sum(k[0] == about["dataset"] for k in self._names)
            self._names[key] = about["dataset"] + (f" {same + 1}" if same else "")
            self._recorder.loader({"name": self._names[key], "time_ns": now_ns(), **about})
        return self._names[key]

    def began_epoch(self, loader: Any, iterator: Any, start_ns: int) -> None:
        """A loader was asked for an iterator."""
        setattr(iterator, _ASKED, (start_ns, self.name(loader)))

    def started_workers(self, loader: Any, start_ns: int) -> None:
        """A loader has started its workers."""
        if loader.num_workers:
            self._event("workers", self.name(loader), start_ns, count=loader.num_workers)

    def got_first_batch(self, iterator: Any) -> None:
        """The first batch of an epoch has come, or the end of an epoch without one."""
        start_ns, name = getattr(iterator, _ASKED, (0, ""))
        if not start_ns:
            return  # the iterator was there before it could be observed
        self._epochs[name] = self._epochs.get(name, 0) + 1
        self._event("epoch", name, start_ns, count=self._epochs[name])

    def _event(self, kind: str, name: str, start_ns: int, *, count: int) -> None:
        self._events += 1
        if self._events <= _MOST_EVENTS:
            self._recorder.event(kind, name=name, start_ns=start_ns, end_ns=now_ns(), count=count)

    def sample(self, iterator: Any, time_ns: int) -> None:
        """Now and then, log how many batches wait in the queue of an iterator's workers."""
        if iterator._num_workers and self._countable and self._ration.due(time_ns):
            try:
                ready = batches_ready(iterator)
            except NotImplementedError:
                self._countable = False
                return
            capacity = iterator._prefetch_factor * iterator._num_workers
            name = getattr(iterator, _ASKED, (0, _KIND))[1]
            self._recorder.level(_KIND, name, ready, capacity)


def batches_ready(iterator: Any) -> int:
    """Batches that the workers have made and the loop has not taken.

    Args:
        iterator: A `_MultiProcessingDataLoaderIter`.

    Raises:
        NotImplementedError: The system cannot tell the length of a queue (macOS).
    """
    early = sum(len(task) > 1 for task in list(iterator._task_info.values()))
    return early + int(iterator._data_queue.qsize())


def _set_up(loader: Any) -> dict[str, Any]:
    """How a loader is set up; what does not apply is null."""
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


def install(module: ModuleType, aside: Aside, loaders: Loaders, waits: InputWait) -> None:
    """Observe the loaders of a freshly imported `torch.utils.data.dataloader`.

    Fetching a batch counts as waiting, and so does starting an epoch: it may start the workers.

    Args:
        module: That module.
        aside: Guards what is noted about them.
        loaders: Takes note of them.
        waits: Takes the waits.
    """
    _observe_epochs(module.DataLoader, aside, loaders, waits)
    _observe_batches(module._BaseDataLoaderIter, aside, loaders, waits)


def _observe_epochs(base: Any, aside: Aside, loaders: Loaders, waits: InputWait) -> None:
    """Note where an epoch begins and where workers start."""
    make, begin = base._get_iterator, base.__iter__

    @functools.wraps(make)
    def get_iterator(self: Any) -> Any:
        start_ns = now_ns()
        iterator = make(self)
        aside.guard(lambda: loaders.started_workers(self, start_ns))
        return iterator

    @functools.wraps(begin)
    def iterate(self: Any) -> Any:
        start_ns = now_ns()
        try:
            iterator = begin(self)
        finally:
            waits.add(now_ns() - start_ns)
        aside.guard(lambda: loaders.began_epoch(self, iterator, start_ns))
        return iterator

    base._get_iterator, base.__iter__ = get_iterator, iterate


def _observe_batches(base: Any, aside: Aside, loaders: Loaders, waits: InputWait) -> None:
    """Time the waits for batches, and count those that are ready when the loop asks."""
    fetch = base.__next__

    @functools.wraps(fetch)
    def next_batch(self: Any) -> Any:
        first = not self._num_yielded
        if waits.light and not first:
            return fetch(self)
        start_ns = now_ns()
        if not first and self._num_workers:
            aside.guard(lambda: loaders.sample(self, start_ns))
        try:
            return fetch(self)
        finally:
            waits.add(now_ns() - start_ns)
            if first:
                aside.guard(lambda: loaders.got_first_batch(self))

    base.__next__ = next_batch
