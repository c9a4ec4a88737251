"""Fill levels and costs of the stages of a `tf.data` pipeline, from TensorFlow's own model of it.

Reading the model takes between 0.03 and 5 ms, so that it is read ever more rarely, and its share of
the time stays below a thousandth.

Source of the model: tensorflow/core/framework/model.proto, `ModelProto`.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.process import lifetime

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from stepwhy.capture.loop import Loop

PIPELINE_SCHEMA = "stepwhy.pipeline/1"
PIPELINE_FILE = "pipeline.json"

# Of the iterators that live (one for training, one for evaluation), the newest ones.
_MOST_ITERATORS = 4
_MOST_STAGES = 200
_SHORTEST_NS = 20_000_000
# Time between two looks, in times of what a look takes. The first ones follow each other sooner:
# TensorFlow sets itself up in the first, when the buffers may not have filled.
_REST = 1000
_FIRST_LOOKS = 3
# The same, relative to the age of the run: what is sampled grows with its logarithm.
_SHARE_OF_RUN = 1 / 2000


def stages_of(model: Any) -> list[dict[str, Any]]:
    """The stages of a pipeline, from the one that the training takes from to the sources.

    Args:
        model: TensorFlow's `ModelProto`.

    Returns:
        By stage: `id`, `name`, `inputs` (ids), `asynchronous` (threads of its own fill a buffer),
        `elements` (made so far), `processing_ns` (per element, over all of its threads, without its
        inputs), `buffered` (elements in its buffer), `buffer_size` and `parallelism`. What a stage
        has not is absent.
    """
    found: list[dict[str, Any]] = []
    waiting = [model.output]
    while waiting and len(found) < _MOST_STAGES:
        node = model.nodes.get(waiting.pop(0))
        if node is None:
            continue
        found.append(_stage(node))
        waiting += node.inputs
    return found


def _stage(node: Any) -> dict[str, Any]:
    """What the model says about one stage."""
    classes = node.DESCRIPTOR.fields_by_name["node_class"].enum_type.values_by_number
    about = {"id": node.id, "name": node.name, "inputs": list(node.inputs)}
    asynchronous = classes[node.node_class].name.startswith("ASYNC")
    about |= {"asynchronous": asynchronous, "elements": node.num_elements}
    if node.num_elements:
        about["processing_ns"] = round(node.processing_time / node.num_elements)
    if asynchronous or node.buffered_elements:
        about["buffered"] = node.buffered_elements
    for parameter in node.parameters:
        size = round(parameter.state_value if parameter.tunable else parameter.value)
        if parameter.name in ("buffer_size", "parallelism") and size > 0:
            about[parameter.name] = size
    return about


def capacity_of(stage: Mapping[str, Any]) -> int | None:
    """How many elements the buffer of a stage holds; None where the model does not say."""
    # A parallel stage makes as many elements ahead as it has threads.
    return stage.get("buffer_size") or stage.get("parallelism")


def _model_of(iterator: Any) -> Any:
    """TensorFlow's model of an iterator's pipeline.

    Raises:
        Exception: There is none, or not in this version.
    """
    from tensorflow.python.data.experimental.ops.iterator_model_ops import (
        get_model_proto,
    )

    return get_model_proto(iterator)


class _Watched:
    """An iterator that is watched as long as somebody else keeps it.

    Attributes:
        iterator: Refers to it.
        elements: How many it had made when it was last looked at.
    """

    __slots__ = ("elements", "iterator")

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.elements = 0


class Pipelines:
    """Looks now and then at the pipeline that the training takes its batches from.

    Args:
        loop: What is shared.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._watched: list[_Watched] = []
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Begin as in a process that has looked at nothing; what was made is remembered."""
        self._started_ns = self._due_ns = 0
        self._looks = 0
        self._unknown = False

    def made(self, iterator: Any) -> None:
        """An iterator over a dataset has been made by the driving thread."""
        alive = [each for each in self._watched if each.iterator() is not None]
        self._watched = [*alive, _Watched(iterator)][-_MOST_ITERATORS:]

    def sample(self, time_ns: int) -> bool:
        """Look, when it is time to; whether it did.

        Args:
            time_ns: The time, on the clock of `now_ns`.
        """
        if time_ns < self._due_ns or not self._watched or self._unknown:
            return False
        self._started_ns = self._started_ns or time_ns
        begin_ns = now_ns()
        self._look()
        end_ns = now_ns()
        age_ns = end_ns - self._started_ns
        self._looks += 1
        cost_ns = end_ns - begin_ns if self._looks >= _FIRST_LOOKS else 0
        rest_ns = max(_SHORTEST_NS, _REST * cost_ns, int(age_ns * _SHARE_OF_RUN))
        self._due_ns = end_ns + rest_ns
        return True

    def _look(self) -> None:
        """Log the fill levels of the pipeline that has made most since the last look."""
        stages = self._busiest()
        if not stages:
            return
        recorder = self._loop.recorder
        for stage in stages:
            if stage["asynchronous"]:
                name = f"{stage['name']}[{stage['id']}]"
                recorder.level("tf.data", name, stage["buffered"], capacity_of(stage))
        about = {"schema": PIPELINE_SCHEMA, "time_ns": now_ns(), "stages": stages}
        recorder.keep(PIPELINE_FILE, about)

    def _busiest(self) -> list[dict[str, Any]]:
        """The stages of the pipeline that the training takes from; none when that is unknown."""
        most, found, failures = 0, [], 0
        for watched in self._watched:
            iterator = watched.iterator()
            if iterator is None:
                continue
            try:
                stages = stages_of(_model_of(iterator))
            except Exception:
                failures += 1
                continue
            elements = stages[0]["elements"] if stages else 0
            made, watched.elements = elements - watched.elements, elements
            if made > most:
                most, found = made, stages
        if failures and not found:
            self._give_up()
        return found

    def _give_up(self) -> None:
        """TensorFlow has no model; it will have none later."""
        self._unknown = True
        self._loop.recorder.message(
            "info",
            "no-pipeline-model",
            "the fill levels of tf.data are not known: TensorFlow keeps no model of this pipeline "
            "(its autotuning is off)",
        )


def install(module: ModuleType, loop: Loop) -> None:
    """Observe the iterators of a freshly imported `...data.ops.iterator_ops`.

    Waits for their elements in Python count as input wait.

    Args:
        module: That module.
        loop: What is shared.
    """
    from tensorflow.python.eager import context

    pipelines = Pipelines(loop)
    loop.sample = pipelines.sample
    owner = module.OwnedIterator
    make, fetch = owner._create_iterator, owner._next_internal

    @functools.wraps(make)
    def create(self: Any, dataset: Any) -> None:
        make(self, dataset)
        if loop.driven_here() and context.executing_eagerly():
            pipelines.made(self)

    @functools.wraps(fetch)
    def next_internal(self: Any) -> Any:
        if loop.light:
            return fetch(self)
        start_ns = now_ns()
        try:
            return fetch(self)
        finally:
            if loop.driven_here():
                loop.input_wait.add(now_ns() - start_ns)

    owner._create_iterator = create
    owner._next_internal = next_internal
