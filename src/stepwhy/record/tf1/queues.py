"""Sample the fill levels of a session's queues, without adding to its graph.

Another operation would be visible: in the version of the graph, in the random seeds of later
operations, and a finalised graph refuses it. So sizes are read through the `QueueSize` operations
that the graph has already (`tf.train.batch` and similar functions make one for their summary). One
is enough, since a callable may connect the handle of another queue to it.

Source: `CallableOptions.tensor_connection` in tensorflow/core/protobuf/config.proto.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.pacing import SamplingPace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

    Read = Callable[[Any], Sequence[Any]]
    MakeRead = Callable[[Any, Sequence[str], tuple[str, str] | None], Read]

_QUEUES = frozenset(
    kind + version
    for kind in ("FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue")
    for version in ("", "V2")
)
_SIZES = frozenset({"QueueSize", "QueueSizeV2"})
# Operations that give the size of a staging area, and have its capacity as an attribute.
_STAGES = frozenset({"StageSize", "MapSize", "OrderedMapSize"})
_MOST_QUEUES = 8
# Limit for loops that make a session per step.
_MOST_SESSIONS = 3
# Time that reading may take: at first, and more per step. Contention for the interpreter's lock
# (`py_func`) turns a read of 5 us into milliseconds; reads are rare then.
_CREDIT_NS = 20_000_000
_CREDIT_PER_STEP_NS = 5_000

_UNREADABLE = (
    "how full the queue {name!r} is cannot be read without adding to the graph: call its size() "
    "once after creating it. tf.train.batch, shuffle_batch and the input producers do so themselves"
)
_REMOTE = (
    "how full the queues are cannot be read: the session runs on another server, and asking it "
    "takes longer than a step may"
)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of a graph.

    Args:
        name: Name of its operation.
        capacity: Maximum number of elements; None if unbounded.
        reserve: Elements that must remain in it.
        tensor: Name of its handle; '' for a staging area.
        size: Name of the tensor that is its size; '' if there is none.
    """

    name: str
    capacity: int | None
    reserve: int
    tensor: str
    size: str


def queues_of(graph: Any) -> list[Queue]:
    """The queues of a `tf.Graph`, and its staging areas with a size operation.

    Args:
        graph: The graph.
    """
    operations = [(each, each.type) for each in graph.get_operations()]
    sizes = {each.inputs[0].name: each for each, kind in operations if kind in _SIZES}
    queues = [_queue(each, sizes) for each, kind in operations if kind in _QUEUES]
    return queues + [_stage(each) for each, kind in operations if kind in _STAGES]


def _queue(operation: Any, sizes: dict[str, Any]) -> Queue:
    tensor = operation.outputs[0].name
    shuffles = operation.type.startswith("RandomShuffle")
    reserve = operation.get_attr("min_after_dequeue") if shuffles else 0
    size = sizes[tensor].outputs[0].name if tensor in sizes else ""
    return Queue(operation.name, _bound(operation), reserve, tensor, size)


def _stage(operation: Any) -> Queue:
    shared = operation.get_attr("shared_name").decode()
    name = shared or operation.name
    return Queue(name, _bound(operation), 0, "", operation.outputs[0].name)


def _bound(operation: Any) -> int | None:
    """Capacity of a queue; unbounded is -1 (queues) or 0 (staging areas)."""
    capacity: int = operation.get_attr("capacity")
    return capacity if capacity > 0 else None


def _some_queues(graph: Any) -> list[Queue]:
    """The first queues of a graph; empty if they cannot be read."""
    try:
        return queues_of(graph)[:_MOST_QUEUES]
    except Exception:
        return []


class QueueLevels:
    """Samples the queues of the training session between its steps.

    Args:
        recorder: Writes the samples.
        make_read: Makes, for a session, a function that reads tensors by name; optionally, the
            first of two names replaces the second in the graph.

    Attributes:
        readers: Functions that read queues, each with its queues; empty if there are none.
    """

    def __init__(self, recorder: Recorder, make_read: MakeRead) -> None:
        self._recorder = recorder
        self._make_read = make_read
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has run nothing yet (after a fork)."""
        self._session: Any = None
        self._sessions = 0
        self.readers: list[tuple[Read, list[Queue]]] = []
        self._pace = SamplingPace()
        self._credit_ns = _CREDIT_NS

    def sample(self, session: Any, time_ns: int) -> None:
        """Take a sample before a step, if one is due.

        Args:
            session: The training session.
            time_ns: The time.
        """
        self._credit_ns += _CREDIT_PER_STEP_NS
        if self._credit_ns <= 0 or not self._pace.due(time_ns):
            return
        if self._session() is not session:
            return
        try:
            for read, queues in self.readers:
                for queue, value in zip(queues, read(session), strict=True):
                    self._recorder.level(
                        "tf1-queue", queue.name, int(value), queue.capacity, queue.reserve
                    )
        except Exception:
            self.readers = []  # the session was closed, or its server is gone
        self._credit_ns -= now_ns() - time_ns

    def prepare(self, session: Any) -> None:
        """Find the queues of a session, once; takes milliseconds.

        Args:
            session: The training session.
        """
        is_known = self._session is not None and self._session() is session
        if is_known or self._sessions >= _MOST_SESSIONS:
            return
        self._sessions += 1
        self._session = weakref.ref(session)
        self.readers = []
        queues = _some_queues(session.graph)
        if queues and getattr(session, "_target", None):
            self._recorder.message("info", "queues-unreadable", _REMOTE)
            return
        self.readers = list(self._find_readers(session, queues))
        read = {queue.name for _, readable in self.readers for queue in readable}
        for queue in queues:
            if queue.name not in read:
                text = _UNREADABLE.format(name=queue.name)
                self._recorder.message("info", "queue-unreadable", text)

    def _find_readers(
        self, session: Any, queues: Sequence[Queue]
    ) -> list[tuple[Read, list[Queue]]]:
        """Make readers: one for all queues with a size operation, one per queue without."""
        sized = [queue for queue in queues if queue.size]
        ways: list[tuple[list[Queue], list[str], tuple[str, str] | None]] = []
        if sized:
            ways.append((sized, [queue.size for queue in sized], None))
        lender = next((queue for queue in sized if queue.tensor), None)
        if lender is not None:
            ways += [
                ([queue], [lender.size], (queue.tensor, lender.tensor))
                for queue in queues
                if not queue.size
            ]
        readers = []
        for read_queues, tensors, connection in ways:
            try:
                read = self._make_read(session, tensors, connection)
                read(session)
                readers.append((read, read_queues))
            except Exception:  # noqa: S112  a queue that cannot be read is reported by the caller
                continue
        return readers


def reader_maker(protos: Any) -> MakeRead:
    """Make readers from TensorFlow callables, which keep no part of the session alive.

    Args:
        protos: The module that holds `CallableOptions`.
    """
    from tensorflow.python.client import pywrap_tf_session

    def make(session: Any, tensors: Sequence[str], connection: tuple[str, str] | None) -> Read:
        options = protos.CallableOptions(fetch=tensors)
        # Run in this thread: with all pool threads busy, the training would have to wait.
        options.run_options.inter_op_thread_pool = -1
        if connection is not None:
            options.tensor_connection.add(from_tensor=connection[0], to_tensor=connection[1])
        buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
        try:
            handle = pywrap_tf_session.TF_SessionMakeCallable(session._session, buffer)
        finally:
            pywrap_tf_session.TF_DeleteBuffer(buffer)
        run = pywrap_tf_session.TF_SessionRunCallable

        def read(session: Any) -> Sequence[Any]:
            if session._closed:
                raise RuntimeError("closed")
            return run(session._session, handle, (), None)  # type: ignore[no-any-return]

        return read

    return make
