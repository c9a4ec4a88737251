"""Log of data loaders, with fake loaders without torch."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.observation_guard import ObservationGuard
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps.meters import InputWait
from stepwhy.record.torch import loaders, observer
from stepwhy.record.torch.loaders import Loaders, batches_ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Images:
    """A data set."""


class Queue:
    def __init__(self, size: int) -> None:
        self._size = size

    def qsize(self) -> int:
        return self._size


class Batches:
    """Like `_BaseDataLoaderIter`: three batches, two of which are ready."""

    def __init__(self, workers: int) -> None:
        self._num_yielded = 0
        self._num_workers = workers
        self._prefetch_factor = 2
        self._task_info = {3: (0,), 4: (1, "batch"), 5: (0,)}
        self._data_queue = Queue(1)

    def __next__(self) -> int:
        if self._num_yielded == 3:
            raise StopIteration
        self._next_index()
        self._num_yielded += 1
        return self._num_yielded

    def _next_index(self) -> int:
        return self._num_yielded


class DataLoader:
    def __init__(self, workers: int, batch_size: int = 16) -> None:
        self.dataset, self.sampler = Images(), object()
        self.num_workers, self.batch_size, self.prefetch_factor = workers, batch_size, 2
        self.persistent_workers, self.pin_memory = False, False

    def _get_iterator(self) -> Batches:
        return Batches(self.num_workers)

    def __iter__(self) -> Iterator[int]:
        return self._get_iterator()  # type: ignore[return-value]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")


@pytest.fixture
def waits() -> InputWait:
    return InputWait(sees_all=True)


@pytest.fixture
def loader_type(recorder: Recorder, waits: InputWait) -> type[DataLoader]:
    """The observed class of loaders."""

    class Iterator(Batches):
        __next__ = Batches.__next__

    class Observed(DataLoader):
        __iter__ = DataLoader.__iter__

        def _get_iterator(self) -> Batches:
            return Iterator(self.num_workers)

    module: Any = SimpleNamespace(DataLoader=Observed, _BaseDataLoaderIter=Iterator)
    loaders.instrument(module, ObservationGuard(recorder, "Loaders"), Loaders(recorder), waits)
    return Observed


def written(recorder: Recorder, tmp_path: Path, name: str) -> list[dict[str, Any]]:
    recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
    path = tmp_path / f"process-{os.getpid()}" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_configurations_are_logged_once_with_distinct_names(
    loader_type: type[DataLoader], recorder: Recorder, tmp_path: Path
) -> None:
    for loader in (loader_type(2), loader_type(2), loader_type(0, batch_size=8)):
        assert list(loader) == [1, 2, 3]
    first, second = written(recorder, tmp_path, "loaders")
    assert first.pop("time_ns") > 0
    assert first == {
        "name": "Images",
        "dataset": "Images",
        "sampler": "object",
        "batch_size": 16,
        "workers": 2,
        "prefetch_factor": 2,
        "persistent_workers": False,
        "pin_memory": False,
    }
    assert (second["name"], second["workers"], second["prefetch_factor"]) == ("Images 2", 0, None)


def test_the_call_of_a_loader_is_logged_as_it_is_written(
    loader_type: type[DataLoader], recorder: Recorder, tmp_path: Path
) -> None:
    Observed, sizes = loader_type, {"small": 8}  # noqa: N806
    loader = Observed(
        2,  # workers
        batch_size=sizes["small"],
    )
    assert list(loader) == [1, 2, 3]
    (made,) = (e for e in written(recorder, tmp_path, "events") if e["kind"] == "made")
    assert made["name"] == "Images"
    assert made["reason"] == "Observed(2, batch_size=sizes['small'])"
    assert made["source"].endswith(": test_the_call_of_a_loader_is_logged_as_it_is_written")


def test_the_calls_that_make_embedding_tables_are_logged_with_their_shapes(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Embedding:
        def __init__(self, rows: int, width: int) -> None:
            self.num_embeddings, self.embedding_dim = rows, width

    class EmbeddingBag(Embedding):
        pass

    class Users(EmbeddingBag):
        def __init__(self) -> None:
            super().__init__(70, 3)

    monkeypatch.setattr(observer, "observer_of", lambda _: SimpleNamespace(recorder=recorder))
    module: Any = SimpleNamespace(Embedding=Embedding, EmbeddingBag=EmbeddingBag)
    observer.observe_tables(module, "")
    rows, here = 50, sys._getframe().f_code.co_name
    assert Embedding(rows, 4).num_embeddings == rows
    Users()
    made = [e for e in written(recorder, tmp_path, "events") if e["kind"] == "made"]
    assert {(e["name"], e["reason"], e["source"].rpartition(": ")[2]) for e in made} == {
        ("nn.Embedding[50x4]", "Embedding(rows, 4)", here),
        ("nn.Embedding[70x3]", "super().__init__(70, 3)", "__init__"),
    }


def test_epochs_and_starts_of_workers_are_events(
    loader_type: type[DataLoader], recorder: Recorder, tmp_path: Path
) -> None:
    loader = loader_type(2)
    for _ in range(2):
        list(loader)
    list(loader_type(0))
    events = written(recorder, tmp_path, "events")
    assert [(e["kind"], e["name"], e["count"]) for e in events] == [
        ("workers", "Images", 2),
        ("epoch", "Images", 1),
        ("workers", "Images", 2),
        ("epoch", "Images", 2),
        ("epoch", "Images 2", 1),
    ]
    workers, epoch, *_ = events
    assert epoch["start_ns"] <= workers["start_ns"] <= workers["end_ns"] <= epoch["end_ns"]


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_that_replace_one_with_batches_left_are_events(
    workers: int, loader_type: type[DataLoader], recorder: Recorder, tmp_path: Path
) -> None:
    loader = loader_type(workers)
    for _ in range(3):
        next(iter(loader))
    list(loader)
    list(loader)
    events = written(recorder, tmp_path, "events")
    made = [e for e in events if e["kind"] == "iterator"]
    assert [(e["name"], e["count"]) for e in made] == [("Images", 1), ("Images", 2), ("Images", 3)]
    assert all("test_loaders.py(" in e["source"] for e in made)
    assert all(e["start_ns"] <= e["end_ns"] for e in made)


def test_events_are_bounded(
    loader_type: type[DataLoader],
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loaders, "_MOST_EVENTS", 3)
    for _ in range(5):
        list(loader_type(0))
    assert len(written(recorder, tmp_path, "events")) == 3


def test_ready_batches_include_those_that_arrived_early() -> None:
    assert batches_ready(Batches(2)) == 2


def test_levels_are_sampled_with_workers(
    loader_type: type[DataLoader], recorder: Recorder, tmp_path: Path
) -> None:
    list(loader_type(0))
    assert written(recorder, tmp_path, "levels") == []
    list(loader_type(2))
    levels = written(recorder, tmp_path, "levels")
    # One request that is due, and the next one; the first batch of an epoch is waited for anyway.
    assert len(levels) == 2
    for level in levels:
        assert level.pop("time_ns") > 0
        assert level == {"kind": "dataloader", "name": "Images 2", "value": 2, "capacity": 4}


def test_queue_without_a_length_is_not_sampled(
    loader_type: type[DataLoader],
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: Queue) -> int:
        raise NotImplementedError

    monkeypatch.setattr(Queue, "qsize", refuse)
    assert list(loader_type(2)) == [1, 2, 3]
    assert recorder.alive
    assert written(recorder, tmp_path, "levels") == []


def test_waits_are_timed_but_not_in_light_steps(
    loader_type: type[DataLoader], recorder: Recorder, waits: InputWait, tmp_path: Path
) -> None:
    assert waits.take() == -1
    batches = iter(loader_type(2))
    next(batches)
    assert waits.take() > 0
    waits.light = True
    assert (next(batches), next(batches)) == (2, 3)
    assert waits.take() == 0
    assert written(recorder, tmp_path, "levels") == []


@pytest.mark.parametrize("missing", ["_num_yielded", "_num_workers"])
def test_a_loader_without_private_attributes_trains_and_its_waits_are_timed(
    recorder: Recorder, waits: InputWait, tmp_path: Path, missing: str
) -> None:
    class Iterator(Batches):
        def __init__(self) -> None:
            super().__init__(0)
            self.left = [1, 2, 3]
            delattr(self, missing)

        def __next__(self) -> int:
            self._next_index()
            if not self.left:
                raise StopIteration
            return self.left.pop(0)

        def _next_index(self) -> int:
            return len(self.left)

    class Observed(DataLoader):
        __iter__ = DataLoader.__iter__

        def _get_iterator(self) -> Batches:
            return Iterator()

    module: Any = SimpleNamespace(DataLoader=Observed, _BaseDataLoaderIter=Iterator)
    loaders.instrument(module, ObservationGuard(recorder, "Loaders"), Loaders(recorder), waits)
    assert list(Observed(0)) == [1, 2, 3]
    assert waits.take() > 0
    (message,) = written(recorder, tmp_path, "messages")
    assert message["text"] == "Loaders could not be observed: AttributeError"
