"""The stages of a `tf.data.Dataset` as the program wrote them.

TensorFlow's model of a pipeline has only the stages that still work: those before a shuffle buffer
that holds all elements have ended. And it does not say whether a function draws random numbers.

Source: `tensorflow/python/data/ops/dataset_ops.py` (`_inputs`, `_functions`), versions 2.9 to 2.21.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_MOST_STAGES = 100
# '_ParallelMapDataset' and 'ParallelMapV2' are a 'Map', 'CacheDataset' and 'MemoryCache' a 'Cache'.
_DECORATION = re.compile(r"^_|(Dataset)?(V\d+)?$")
_KINDS = re.compile(r"^(Parallel|Finite|Forever|Memory|File)(?=[A-Z])")
# Do nothing to the elements.
_TRANSPARENT = {"Options", "Model", "DatasetV1Adapter"}
_RANDOM = re.compile(r"Random|Stateful(Standard|Uniform|Truncated)|TruncatedNormal|Multinomial|Rng")
# What it returns is the program's business, and may be random.
_PYTHON = re.compile(r"PyFunc|PyFuncStateless")


def written_stages(dataset: Any) -> list[dict[str, Any]]:
    """The stages of a data set, from the last one to the source.

    Returns:
        For each stage: `name`, and `random`, whether its function draws random numbers. `random` is
        absent if there is no function, or it calls Python. A stage with several inputs is the last.
    """
    found: list[dict[str, Any]] = []
    while len(found) < _MOST_STAGES:
        name = _DECORATION.sub("", type(dataset).__name__)
        if name not in _TRANSPARENT:
            found.append({"name": name, **_randomness(dataset)})
        inputs = dataset._inputs()
        if len(inputs) != 1:
            break
        dataset = inputs[0]
    return found


def _randomness(dataset: Any) -> dict[str, bool]:
    kinds: set[str] = set()
    for function in dataset._functions():
        definition = function.function.graph.as_graph_def(add_shapes=False)
        kinds.update(node.op for node in definition.node)
        kinds.update(node.op for f in definition.library.function for node in f.node_def)
    if any(map(_RANDOM.search, kinds)):
        return {"random": True}
    return {} if not kinds or any(map(_PYTHON.search, kinds)) else {"random": False}


def completed(
    stages: Sequence[dict[str, Any]], written: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The stages of a model, with what only the program shows.

    Args:
        stages: From the model: each with its `id`, `name` and `inputs`, consumers first.
        written: The stages as the program wrote them.

    Returns:
        The stages, with `random` where it is known, and those that have ended at the end. Only as
        far as both are one chain whose stages correspond.
    """
    if not stages or any(
        consumer["inputs"] != [producer["id"]] for consumer, producer in pairwise(stages)
    ):
        return list(stages)
    found, place = [], 0
    is_last_known = False
    for stage in stages:
        covered = _covered(stage["name"], written, place)
        place += len(covered)
        is_last_known = bool(covered)
        found.append({**stage, **_merged(covered)})
    ended = written[place:] if is_last_known and not found[-1]["inputs"] else []
    for stage in ended:
        number = found[-1]["id"] + 1
        found[-1] = {**found[-1], "inputs": [number]}
        found.append({"id": number, "inputs": [], "asynchronous": False, **stage})
    return found


def _covered(name: str, written: Sequence[dict[str, Any]], place: int) -> list[dict[str, Any]]:
    """The written stages from a place on that one stage of the model does; it may fuse several."""
    parts = {_kind(part) for part in _DECORATION.sub("", name).split("And")}
    covered: list[dict[str, Any]] = []
    for stage in written[place : place + len(parts)]:
        if _kind(stage["name"]) not in parts:
            break
        covered.append(stage)
    return covered


def _merged(covered: Sequence[dict[str, Any]]) -> dict[str, bool]:
    known = [stage["random"] for stage in covered if "random" in stage]
    return {"random": any(known)} if known else {}


def _kind(name: str) -> str:
    return _KINDS.sub("", name)


__all__ = ["completed", "written_stages"]
