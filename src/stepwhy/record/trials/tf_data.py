"""Change the `tf.data` pipelines of a program when it builds or iterates them.

Source: `tensorflow/python/data/ops/dataset_ops.py`, versions 2.9 to 2.21.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.reports import Trial

_AHEAD = 2
# What `cardinality` returns for a pipeline that never ends, and `repeat` takes as that.
_ENDLESS = -1
# Data sets whose elements differ from one epoch to the next.
_RANDOM = ("Shuffle", "Random", "Generator", "Sampl")
_HARMLESS = ("Placeholder", "Const", "Assert")
_DATASET = re.compile(r"Dataset(V\d+)?$")


def map_in_parallel(module: Any, trial: Trial) -> None:
    """Let `map` and `interleave` call their functions in parallel, for as many as AUTOTUNE says."""
    for name in ("map", "interleave"):
        _in_parallel(module, name, trial)


def _in_parallel(module: Any, name: str, trial: Trial) -> None:
    import inspect

    original = getattr(module.DatasetV2, name)

    @functools.wraps(original)
    def parallel(self: Any, *args: Any, **kwargs: Any) -> Any:
        names = [name for name in inspect.signature(original).parameters if name != "self"]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if given.get("num_parallel_calls") is None:
            given["num_parallel_calls"] = module.AUTOTUNE
            given.setdefault("deterministic", None)
            trial.changed(f"Dataset.{name}: num_parallel_calls=AUTOTUNE")
        else:
            trial.left(f"a Dataset.{name} that runs in parallel already")
        return original(self, **given)

    setattr(module.DatasetV2, name, parallel)


def prefetch(module: Any, trial: Trial) -> None:
    """Prepare two batches ahead, or `value`, at the end of each pipeline."""
    ahead = trial.spec.count(_AHEAD)

    def prefetched(dataset: Any) -> Any:
        if _prefetches(dataset):
            trial.left("a pipeline that ends with prefetch already")
            return dataset
        trial.changed(f"Dataset: prefetch({ahead}) at the end")
        return dataset.prefetch(ahead)

    _before_iteration(module, trial, prefetched)


def _prefetches(dataset: Any) -> bool:
    """Whether a pipeline ends with `prefetch`; options and models behind it do nothing."""
    while type(dataset).__name__ in {"_OptionsDataset", "_ModelDataset", "DatasetV1Adapter"}:
        dataset = getattr(dataset, "_input_dataset", None) or getattr(dataset, "_dataset", None)
    return "Prefetch" in type(dataset).__name__


def repeat_batch(module: Any, trial: Trial) -> None:
    """Return the first batch of each pipeline again and again, for as many batches as before."""

    def constant(dataset: Any) -> Any:
        count = int(dataset.cardinality())
        if count < _ENDLESS:
            trial.left("a pipeline of unknown length")
            return dataset
        trial.changed("Dataset: the first batch is repeated")
        return dataset.take(1).cache().repeat(count)

    _before_iteration(module, trial, constant)


def _before_iteration(module: Any, trial: Trial, change: Callable[[Any], Any]) -> None:
    """Change each pipeline right before an eager program iterates it."""
    original = module.DatasetV2.__iter__
    busy = [False]

    @functools.wraps(original)
    def iterate(self: Any) -> Any:
        if busy[0]:
            return original(self)
        busy[0] = True
        try:
            changed = change(self)
        except Exception as error:
            trial.failed(error)
            changed = self
        finally:
            busy[0] = False
        return original(changed)

    module.DatasetV2.__iter__ = iterate


def cache(module: Any, trial: Trial) -> None:
    """Keep the results of each `map` over a finite data set that are the same in each epoch."""
    original = module.DatasetV2.map

    @functools.wraps(original)
    def cached(self: Any, *args: Any, **kwargs: Any) -> Any:
        mapped = original(self, *args, **kwargs)
        try:
            return _cached(mapped, self, trial)
        except Exception as error:
            trial.failed(error)
            return mapped

    module.DatasetV2.map = cached


def _cached(mapped: Any, before: Any, trial: Trial) -> Any:
    """The mapped data set with a cache behind it, where that is safe."""
    if int(before.cardinality()) < 1:
        trial.left("a Dataset.map of unknown or endless length, whose cache would not fit")
        return mapped
    changing = _changing(mapped)
    if changing:
        trial.left(f"a Dataset.map that is not the same each time ({', '.join(changing[:3])})")
        return mapped
    trial.changed("Dataset: cache() after map")
    return mapped.cache()


def _changing(dataset: Any) -> list[str]:
    """What a pipeline has that may differ from one epoch to the next."""
    found = [type(dataset).__name__] if _is_random(type(dataset).__name__) else []
    for function in dataset._functions():
        found += _stateful_ops(function.function.graph.as_graph_def(add_shapes=False))
    for source in dataset._inputs():
        found += _changing(source)
    return list(dict.fromkeys(found))


def _is_random(name: str) -> bool:
    return any(part in name for part in _RANDOM)


def _stateful_ops(definition: Any) -> list[str]:
    """Operations that draw random numbers, call Python or have other state."""
    from tensorflow.python.framework import op_def_registry

    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    found = []
    for kind in dict.fromkeys(node.op for node in nodes):
        about = op_def_registry.get(kind)
        # Data sets count as stateful for another reason.
        plain = _DATASET.search(kind) and not _is_random(kind)
        if about is not None and about.is_stateful and not plain and kind not in _HARMLESS:
            found.append(kind)
    return found
