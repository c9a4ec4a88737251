"""Sample queues, with a fake session that counts."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.tf1 import queues
from stepwhy.record.tf1.queues import Queue, QueueLevels, queues_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MS = 1_000_000


class Operation:
    """An operation of a graph."""

    def __init__(self, name: str, kind: str, *inputs: Operation, **attributes: Any) -> None:
        self.name, self.type = name, kind
        self.outputs = [SimpleNamespace(name=f"{name}:0")]
        self.inputs = [each.outputs[0] for each in inputs]
        self.get_attr = attributes.__getitem__


class Session:
    """A session whose queues have one more element at every reading."""

    _target = b""

    def __init__(self, *operations: Operation) -> None:
        self.graph = SimpleNamespace(get_operations=lambda: operations)
        self.reads: list[tuple[Sequence[str], tuple[str, str] | None]] = []


def make_read(_session: Session, tensors: Sequence[str], connection: tuple[str, str] | None) -> Any:
    if connection is not None and connection[0] == "elsewhere:0":
        raise ValueError("on another device")

    def read(session: Session) -> list[int]:
        session.reads.append((tensors, connection))
        return [len(session.reads)] * len(tensors)

    return read


def shuffle() -> Operation:
    return Operation("shuffle", "RandomShuffleQueueV2", capacity=30, min_after_dequeue=10)


def size_of(queue: Operation) -> Operation:
    return Operation(f"{queue.name}_Size", "QueueSizeV2", queue)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "tensorflow", "2.0", "tf1-session")


def written(recorder: Recorder, tmp_path: Path, name: str) -> list[dict[str, Any]]:
    recorder.step("{}")
    recorder.close()
    path = tmp_path / f"process-{os.getpid()}" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_queues_are_found_with_their_bounds_and_sizes() -> None:
    queue = shuffle()
    free = Operation("free", "FIFOQueueV2", capacity=-1)
    stage = Operation("stage_size", "StageSize", capacity=4, shared_name=b"stage")
    graph = Session(queue, free, size_of(queue), Operation("x", "MatMul"), stage).graph
    assert queues_of(graph) == [
        Queue("shuffle", 30, 10, "shuffle:0", "shuffle_Size:0"),
        Queue("free", None, 0, "free:0", ""),
        Queue("stage", 4, 0, "", "stage_size:0"),
    ]


def test_a_queue_without_a_size_is_read_by_the_size_of_another(
    recorder: Recorder, tmp_path: Path
) -> None:
    queue, other = shuffle(), Operation("other", "FIFOQueueV2", capacity=5)
    session = Session(queue, other, size_of(queue))
    levels = QueueLevels(recorder, make_read)
    levels.prepare(session)
    session.reads.clear()
    levels.sample(session, 1)
    assert session.reads == [
        (["shuffle_Size:0"], None),
        (["shuffle_Size:0"], ("other:0", "shuffle:0")),
    ]
    found = [(e["name"], e["value"]) for e in written(recorder, tmp_path, "levels")]
    assert found == [("shuffle", 1), ("other", 2)]


@pytest.mark.parametrize("lender", [True, False])
def test_unreadable_queue_is_reported_and_left_alone(
    recorder: Recorder, tmp_path: Path, lender: bool
) -> None:
    queue, elsewhere = shuffle(), Operation("elsewhere", "FIFOQueueV2", capacity=5)
    session = Session(elsewhere, *((queue, size_of(queue)) if lender else ()))
    levels = QueueLevels(recorder, make_read)
    levels.prepare(session)
    levels.sample(session, 1)
    (message,) = written(recorder, tmp_path, "messages")
    assert "'elsewhere'" in message["text"]
    names = {e["name"] for e in written(recorder, tmp_path, "levels")}
    assert names == ({"shuffle"} if lender else set())


def test_queues_of_another_server_are_not_read(recorder: Recorder, tmp_path: Path) -> None:
    queue = shuffle()
    session = Session(queue, size_of(queue))
    session._target = b"grpc://127.0.0.1:1"
    levels = QueueLevels(recorder, make_read)
    levels.prepare(session)
    levels.sample(session, 1)
    assert session.reads == []
    assert [m["slug"] for m in written(recorder, tmp_path, "messages")] == ["queues-unreadable"]


def test_slow_reading_is_rare(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = shuffle()
    session = Session(queue, size_of(queue))
    levels = QueueLevels(recorder, make_read)
    levels.prepare(session)
    session.reads.clear()
    steps = 2000
    for step in range(1, steps + 1):
        time_ns = step * 100 * _MS
        # Each reading takes 5 ms.
        monkeypatch.setattr(queues, "now_ns", lambda at_ns=time_ns: at_ns + 5 * _MS)
        levels.sample(session, time_ns)
    assert len(session.reads) == (20 * _MS + steps * 5_000) // (5 * _MS)


def test_closed_session_is_not_read_again(recorder: Recorder) -> None:
    queue, asked = shuffle(), [0]

    def make(*_: object) -> Any:
        def read(_session: Session) -> list[int]:
            asked[0] += 1
            if asked[0] > 1:
                raise RuntimeError("closed")
            return [0]

        return read

    session = Session(queue, size_of(queue))
    levels = QueueLevels(recorder, make)
    levels.prepare(session)
    for time_ns in (1, 10**9, 2 * 10**9):
        levels.sample(session, time_ns)
        levels.prepare(session)
    assert asked == [2]


def test_number_of_inspected_sessions_is_limited(recorder: Recorder) -> None:
    queue = shuffle()
    sessions = [Session(queue, size_of(queue)) for _ in range(10)]
    levels = QueueLevels(recorder, make_read)
    for session in sessions:
        levels.prepare(session)
    assert sum(len(session.reads) for session in sessions) == 3


def test_unreadable_graph_has_no_queues(recorder: Recorder) -> None:
    session = Session(Operation("size", "QueueSizeV2"))
    QueueLevels(recorder, make_read).prepare(session)
    assert recorder.alive
