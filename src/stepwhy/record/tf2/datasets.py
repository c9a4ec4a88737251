"""The stages of a `tf.data.Dataset` as the program wrote them.

TensorFlow's model of a pipeline has only the stages that still work: those before a shuffle buffer
that holds all elements have ended. And it does not say whether a function draws random numbers.

Source: `tensorflow/python/data/ops/dataset_ops.py` (`_inputs`, `_functions`), versions 2.9 to 2.21.
"""

from __future__ import annotations

import contextlib
import re
import weakref
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

_lines: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
# Kind of a stage -> the lines at which data sets of the kind were made.
_lines_of_kind: dict[str, set[str]] = {}
_MOST_LINES = 4  # of a kind; more are as good as unknown


def made_at(dataset: Any, line: str) -> None:
    """A data set was made.

    Args:
        dataset: The data set.
        line: Line of the program; '' if unknown.
    """
    if not line:
        return
    known = _lines_of_kind.setdefault(_kind(_bare(type(dataset).__name__)), set())
    if len(known) < _MOST_LINES:
        known.add(line)
    with contextlib.suppress(TypeError):  # classes of the program may have no hash
        _lines[dataset] = line


def written_stages(dataset: Any) -> list[dict[str, Any]]:
    """The stages of a data set, from the last one to the source.

    Returns:
        For each stage: `name`, `line`, and `random`, whether its function draws random numbers.
        `line` is absent if it is unknown, `random` if there is no function, or it calls Python. A
        stage with several inputs is the last.
    """
    found: list[dict[str, Any]] = []
    while len(found) < _MOST_STAGES:
        name = _bare(type(dataset).__name__)
        if name not in _TRANSPARENT:
            line = _lines.get(dataset)
            found.append({"name": name, **_randomness(dataset), **({"line": line} if line else {})})
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
        The stages, with `random` and `line` where they are known, and those that have ended at the
        end. Only as far as both are one chain whose stages correspond; elsewhere, a stage has at
        most a `line`: of the stage that it corresponds to, else that at which all data sets of its
        kind were made, if there is one.
    """
    if not stages or any(
        consumer["inputs"] != [producer["id"]] for consumer, producer in pairwise(stages)
    ):
        return _with_lines(stages, written)
    found, place = [], 0
    is_last_known = False
    for stage in stages:
        covered = _covered(stage["name"], written, place)
        place += len(covered)
        is_last_known = bool(covered)
        found.append({**stage, **_line_of_kind(stage["name"]), **_merged(covered)})
    ended = written[place:] if is_last_known and not found[-1]["inputs"] else []
    for stage in ended:
        number = found[-1]["id"] + 1
        found[-1] = {**found[-1], "inputs": [number]}
        found.append({"id": number, "inputs": [], "asynchronous": False, **stage})
    return found


def _with_lines(
    stages: Sequence[dict[str, Any]], written: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The stages of a pipeline with branches, with lines; the first input is the one it reads."""
    by_id = {stage["id"]: stage for stage in stages}
    lines, place = {}, 0
    at = stages[0] if stages else None
    while at is not None and at["id"] not in lines:
        covered = _covered(at["name"], written, place)
        place += len(covered)
        lines[at["id"]] = {k: v for k, v in _merged(covered).items() if k == "line"}
        at = by_id.get(at["inputs"][0]) if at["inputs"] else None
    return [
        {**stage, **_line_of_kind(stage["name"]), **lines.get(stage["id"], {})} for stage in stages
    ]


def _covered(name: str, written: Sequence[dict[str, Any]], place: int) -> list[dict[str, Any]]:
    """The written stages from a place on that one stage of the model does; it may fuse several."""
    parts = {_kind(part) for part in _bare(name).split("And")}
    covered: list[dict[str, Any]] = []
    for stage in written[place : place + len(parts)]:
        if _kind(stage["name"]) not in parts:
            break
        covered.append(stage)
    return covered


def _merged(covered: Sequence[dict[str, Any]]) -> dict[str, Any]:
    known = [stage["random"] for stage in covered if "random" in stage]
    # Of a call and the batches that it was fused with, the call is the producer.
    lines = [{"line": stage["line"]} for stage in covered if "line" in stage]
    return {**({"random": any(known)} if known else {}), **(lines[-1] if lines else {})}


def _line_of_kind(name: str) -> dict[str, str]:
    """The line at which all data sets of a kind were made; none if there are several."""
    known = _lines_of_kind.get(_kind(_bare(name).partition("And")[0]), set())
    return {"line": next(iter(known))} if len(known) == 1 else {}


def _bare(name: str) -> str:
    return _DECORATION.sub("", name)


def _kind(name: str) -> str:
    return _KINDS.sub("", name)
