"""Sample the buffers and costs of a `tf.data` pipeline from TensorFlow's own model of it.

Reading the model takes 0.03 to 5 ms. The interval between readings grows with that cost and with
the age of the run, so that sampling takes less than a thousandth of the time.

Source of the model: tensorflow/core/framework/model.proto, `ModelProto`.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.user_code import user_line
from stepwhy.record.tf2.datasets import completed, written_stages
from stepwhy.record.tf2.loop import loop_of
from stepwhy.record.watchers.iterators import Iterators

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from stepwhy.record.steps.loop import Loop

PIPELINE_SCHEMA = "stepwhy.pipeline/1"
PIPELINE_FILE = "pipeline.json"

# The newest iterators that are alive: one for training, one for evaluation, ...
_MOST_ITERATORS = 4
_MOST_STAGES = 200
# A program that builds a data set for each epoch must not have all of them examined.
_MOST_DATASETS = 16
# When the program asked for an iterator, or 0 after its first element, and from which line.
_MADE = "_stepwhy_made"
_SHORTEST_NS = 20_000_000
# Pause between two samples, as a multiple of what one takes. The first samples are exempt:
# TensorFlow initialises itself in them, and the buffers may not have filled yet.
_REST = 1000
_FIRST_SAMPLES = 3
# The pause also grows with the run, so that the number of samples grows with its logarithm.
_SHARE_OF_RUN = 1 / 2000


def stages_of(model: Any) -> list[dict[str, Any]]:
    """The stages of a pipeline, from the one that the training consumes to the sources.

    Args:
        model: TensorFlow's `ModelProto`.

    Returns:
        For each stage: `id`, `name`, `inputs` (ids), `asynchronous` (own threads fill a buffer),
        `elements` (produced so far), `processing_ns` (per element, over all its threads, without
        its inputs), `buffered` (elements in its buffer), `buffer_size` and `parallelism`, and
        whether it is `tuned` by TensorFlow. Values that do not apply are absent. `_Datasets` adds
        others.
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
    """One stage of the model."""
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
        if parameter.name == "parallelism":
            about["tuned"] = bool(parameter.tunable)
    return about


def capacity_of(stage: Mapping[str, Any]) -> int | None:
    """Capacity of a stage's buffer, in elements; None if unknown."""
    # A parallel stage produces as many elements ahead as it has threads.
    return stage.get("buffer_size") or stage.get("parallelism")


def _model_of(iterator: Any) -> Any:
    """TensorFlow's model of an iterator's pipeline.

    Raises:
        Exception: There is none, or this version does not offer it.
    """
    from tensorflow.python.data.experimental.ops.iterator_model_ops import get_model_proto

    return get_model_proto(iterator)


class _Observed:
    """An iterator of the training.

    Attributes:
        iterator: Weak reference to it.
        elements: Elements that it had produced at the last sample.
    """

    __slots__ = ("elements", "iterator")

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.elements = 0


class _Datasets:
    """What is known of data sets beyond TensorFlow's model: how they are written and used."""

    def __init__(self) -> None:
        self._written: weakref.WeakKeyDictionary[Any, list[dict[str, Any]]]
        self._written = weakref.WeakKeyDictionary()
        self._passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._produced: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._examined = 0

    def ended(self, dataset: Any) -> None:
        """All elements of a data set were returned."""
        self._passes[dataset] = self._passes.get(dataset, 0) + 1

    def produced(self, dataset: Any, elements: int) -> bool:
        """A data set has produced elements; whether none has produced more so far.

        The one that a validation reads may be the only one that works in the last sample.
        """
        try:
            total = self._produced[dataset] = self._produced.get(dataset, 0) + elements
            return total == max(self._produced.values())
        except Exception:
            return True

    def describe(self, dataset: Any, stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The stages of a pipeline over a data set, completed; the first has `epochs`."""
        try:
            found = completed(stages, self._stages(dataset))
            return [{**found[0], "epochs": self._passes.get(dataset, 0) + 1}, *found[1:]]
        except Exception:
            # Other versions of TensorFlow may lack the methods that show it.
            return stages

    def _stages(self, dataset: Any) -> list[dict[str, Any]]:
        written = self._written.get(dataset)
        if written is None and self._examined < _MOST_DATASETS:
            self._examined += 1
            written = self._written[dataset] = written_stages(dataset)
        return written or []


class Pipelines:
    """Sample the pipeline that feeds the training, at growing intervals.

    Args:
        loop: The loop of this process.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._iterators: list[_Observed] = []
        self._datasets = _Datasets()
        self._is_training = True
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Start over as in a new process (after a fork), but remember the iterators."""
        self._started_ns = self._due_ns = 0
        self._samples = 0
        self._has_no_model = False

    def add(self, iterator: Any) -> None:
        """The driving thread has made an iterator over a dataset."""
        alive = [each for each in self._iterators if each.iterator() is not None]
        self._iterators = [*alive, _Observed(iterator)][-_MOST_ITERATORS:]

    def ended(self, iterator: Any) -> None:
        """An iterator has returned all elements of its data set."""
        # An iterator that a function has returned knows no data set.
        dataset = getattr(iterator, "_dataset", None)
        if dataset is not None:
            self._datasets.ended(dataset)

    def sample(self, time_ns: int) -> bool:
        """Take a sample if one is due; whether one was taken.

        Args:
            time_ns: The time, on the clock of `now_ns`.
        """
        if time_ns < self._due_ns or not self._iterators or self._has_no_model:
            return False
        self._started_ns = self._started_ns or time_ns
        begin_ns = now_ns()
        self._log_levels()
        end_ns = now_ns()
        age_ns = end_ns - self._started_ns
        self._samples += 1
        cost_ns = end_ns - begin_ns if self._samples >= _FIRST_SAMPLES else 0
        rest_ns = max(_SHORTEST_NS, _REST * cost_ns, int(age_ns * _SHARE_OF_RUN))
        self._due_ns = end_ns + rest_ns
        return True

    def _log_levels(self) -> None:
        """Log the buffers of the pipeline that produced most since the last sample."""
        stages = self._busiest()
        if not stages:
            return
        recorder = self._loop.recorder
        for stage in stages:
            if stage["asynchronous"]:
                name = f"{stage['name']}[{stage['id']}]"
                recorder.level("tf.data", name, stage["buffered"], capacity_of(stage))
        if self._is_training:
            about = {"schema": PIPELINE_SCHEMA, "time_ns": now_ns(), "stages": stages}
            recorder.keep(PIPELINE_FILE, about)

    def _busiest(self) -> list[dict[str, Any]]:
        """The stages of the pipeline that feeds the training; empty if unknown."""
        most, found = 0, []
        failure: Exception | None = None
        dataset = None
        for observed in self._iterators:
            iterator = observed.iterator()
            if iterator is None:
                continue
            try:
                stages = stages_of(_model_of(iterator))
            except Exception as error:
                failure = error
                continue
            elements = stages[0]["elements"] if stages else 0
            produced, observed.elements = elements - observed.elements, elements
            if produced > most:
                most, found = produced, stages
                dataset = getattr(iterator, "_dataset", None)
        if failure is not None and not found:
            self._report_no_model(failure)
        self._is_training = dataset is None or self._datasets.produced(dataset, most)
        return found if dataset is None else self._datasets.describe(dataset, found)

    def _report_no_model(self, error: Exception) -> None:
        """TensorFlow keeps no model, or does not show it, and will not later: stop sampling."""
        self._has_no_model = True
        why = "keeps no model of this pipeline (its autotuning is off)"
        if isinstance(error, ImportError):
            why = "shows its model of a pipeline only in later versions"
        text = f"the fill levels of tf.data are not known: TensorFlow {why}"
        self._loop.recorder.message("info", "no-pipeline-model", text)


def _dataset_name(iterator: Any) -> str:
    """The class of an iterator's data set; a name that stands for any if that is not known."""
    dataset = getattr(iterator, "_dataset", None)
    return "Dataset" if dataset is None else type(dataset).__name__


def examples_in(dataset: Any, element: Any) -> int | None:
    """Number of examples in an element of a data set; None if that makes no batches.

    Raises:
        ValueError: It has several sources, and makes no batches of what they give.
    """
    from tensorflow import nest

    while "batch" not in (name := type(dataset).__name__.lower()):
        if not (sources := dataset._inputs()):
            return None
        (dataset,) = sources
    return None if "unbatch" in name else int(nest.flatten(element)[0].shape[0])


def observe_iterators(module: ModuleType, run_dir: str) -> None:
    """Sample the pipelines of `tensorflow.python.data.ops.iterator_ops`.

    The time that Python waits for their elements counts as input wait.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework.errors import OutOfRangeError

    loop = loop_of(run_dir)
    pipelines, iterators = Pipelines(loop), Iterators(loop.recorder)
    sizes: set[int] = set()  # of batches
    lifetime.on_begin(iterators.forget)
    lifetime.on_begin(sizes.clear)
    loop.sample = pipelines.sample
    owner = module.OwnedIterator
    make, fetch = owner._create_iterator, owner._next_internal

    @functools.wraps(make)
    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        start_ns = now_ns()
        make(self, *args, **kwargs)
        if loop.driven_here() and context.executing_eagerly():
            pipelines.add(self)
            loop.guard(lambda: setattr(self, _MADE, [start_ns, user_line()]))

    def timed(self: Any) -> Any:
        if loop.light:
            return fetch(self)
        start_ns = now_ns()
        try:
            return fetch(self)
        finally:
            if loop.driven_here():
                loop.input_wait.add(now_ns() - start_ns)

    def log_batch(self: Any, element: Any) -> None:
        with contextlib.suppress(Exception):
            size = examples_in(self._dataset, element)
            if size is not None and size not in sizes:
                sizes.add(size)
                now = now_ns()
                loop.recorder.event("batch", name="tf.data", start_ns=now, end_ns=now, count=size)

    @functools.wraps(fetch)
    def next_internal(self: Any) -> Any:
        made = self.__dict__.get(_MADE)
        try:
            element = timed(self)
        except OutOfRangeError:
            # `take` drops the rest of the data itself.
            if loop.driven_here():
                loop.guard(lambda: pipelines.ended(self))
            if made and "Take" not in _dataset_name(self):
                loop.guard(lambda: iterators.ended(made[1]))
            raise
        if made and made[0]:
            start_ns, made[0] = made[0], 0
            name = _dataset_name(self).strip("_")
            loop.guard(lambda: iterators.began(made[1], name, made[1], start_ns, now_ns()))
            log_batch(self, element)
        return element

    owner._create_iterator = create
    owner._next_internal = next_internal
