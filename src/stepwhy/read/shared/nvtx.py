"""NVTX ranges: their meaning by their text, and which of them are steps of the training loop.

Source: the NVTX reference; for the texts, `torch.autograd.profiler.emit_nvtx`, `apex.pyprof` and
`platform/nvtx.h` of NVIDIA's TensorFlow.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.patterns import regex
from stepwhy.read.shared.ranges import annotation, operation
from stepwhy.read.shared.tensorflow.ops import executor_kind, normalise_op, phase_of
from stepwhy.trace import NULL, Kind, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CALL_STACKS = "{'traceMarker'"
"""Prefix of ranges of pyprof, whose text is the call stack of an operation."""

# Longest name to show; a longer text contains data.
_LONGEST = 200

# 'aten::mm, seq = 12, op_id = 7, sizes = [[2, 2]]', any of the three may be missing.
_EMITTED = regex(
    r", (?:(?:stashed )?seq = (?P<seq>\d{1,19})|op_id = \d+|sizes = \[|input_op_ids = \[)"
)
_OPERATION = regex(r"^(aten|prim|torchvision|quantized)::")
_BACKWARD = regex(r"Backward\d*$|^torch::autograd::")
_NCCL_CALL = regex(r"^nccl[A-Z]")
_FUNCTION = regex(r"^\{'mod': '(?P<module>[\w.]*)', 'op': '(?P<op>\w+)'")
# 'Conv2D: block/conv1', or with details '{"op":"Conv2D","name":"block/conv1",...'.
_TENSORFLOW = regex(
    r"^(?:(?P<op>\w+): (?P<node>\S+)$|\{\"op\":\"(?P<op2>\w+)\",\"name\":\"(?P<node2>[^\"]+)\")"
)
_CALLERS = regex(r"'(?P<file>[^':]+):(?P<line>\d+)'")
_LIBRARY = regex(r"(^|/)(site-packages|dist-packages|python\d[\d.]*)/")
_HOME = regex(r"/(?:home|Users)/[^/\s'\"]+|/root(?=/)|[A-Za-z]:\\Users\\[^\\\s'\"]+")


class Range(NamedTuple):
    """The meaning of a range.

    Args:
        name: Name to show, without the parts that differ from call to call.
        kind: Its kind.
        phase: Its phase, UNKNOWN unless the name decides it.
        sequence: Autograd sequence number; NULL if the text has none.
        source: Line of the program; '' if the text has none.
    """

    name: str
    kind: Kind
    phase: Phase = Phase.UNKNOWN
    sequence: int = NULL
    source: str = ""


def read_range(text: str, domain: str = "") -> Range:
    """Read the text of a range.

    Args:
        text: The text.
        domain: Name of the range's domain, '' for the default one.
    """
    emitted = _EMITTED.search(text)
    if emitted is None:
        return _meaning(text, domain, is_operation=False)
    same = _meaning(text[: emitted.start()], domain, is_operation=True)
    # 0 means none; other numbers may not fit in int64.
    number = int(emitted["seq"] or 0)
    sequence = number if 0 < number < 1 << 62 else NULL
    return Range(same.name, same.kind, same.phase, sequence)


@lru_cache(maxsize=1 << 16)
def _meaning(text: str, domain: str, *, is_operation: bool) -> Range:
    """Meaning of the part of a text that is the same in every call."""
    if text.startswith(CALL_STACKS):
        # 'file(line)' of the innermost caller outside of libraries, '' without any.
        own = [m for m in _CALLERS.finditer(text) if not _LIBRARY.search(m["file"])]
        line = f"{own[-1]['file'].rpartition('/')[2]}({own[-1]['line']})" if own else ""
        return Range(line or "traceMarker", Kind.ANNOTATION, source=line)
    function = _FUNCTION.match(text)
    if function:
        return Range(".".join(filter(None, function.groups())), Kind.ANNOTATION)
    graph_op = _TENSORFLOW.match(text) if domain.startswith("tensorflow") else None
    if graph_op:
        groups = graph_op.groupdict("")
        return _graph_op(groups["op"] or groups["op2"], groups["node"] or groups["node2"])
    name = without_homes(text)[:_LONGEST]
    if _NCCL_CALL.match(name):
        return Range(name, Kind.FRAMEWORK)
    if not (is_operation or _OPERATION.match(name)):
        return Range(name, *annotation(name))
    kind, phase = operation(name)
    if kind is Kind.OP and _BACKWARD.search(name):
        phase = Phase.BACKWARD
    return Range(name, kind, phase)


def _graph_op(written: str, node: str) -> Range:
    """An operation of a TensorFlow graph; the host only schedules it, the GPU computes."""
    op = normalise_op(written)
    kind = executor_kind(op, node)
    phase = phase_of(op, node, kind)
    return Range(op, Kind.OP if kind in {Kind.KERNEL, Kind.COLLECTIVE} else kind, phase)


def without_homes(text: str) -> str:
    """A text without the names of home folders."""
    return _HOME.sub("~", text) if "/" in text or "\\" in text else text


# --- steps -------------------------------------------------------------------------------------

# Iterations without a number in their name are steps if at least so many have the same name, and
# if they cover at least this share of the time from the first to the last. Ranges that cover less
# are a part of the iteration, such as an optimizer's 'step'.
_FEWEST_REPEATS = 3
_LEAST_COVERED = 0.5

_STEP = regex(
    r"^\W*(?:(?:profiler|run|do|one|global|train(?:ing)?|run training|train one|forward backward)"
    r"[ -]*)?"
    r"(?:(?P<sure>step|iter|iteration)|(?:mini[ -]?)?batch)\b[\s#_:=()\[\]-]*"
    r"(?P<number>\d+)?(?:\s*(?:/|of|to|-|\.\.+)\s*\d+)?\W*$",
    re.IGNORECASE,
)


@lru_cache(maxsize=1 << 16)
def _step_of(name: str) -> tuple[str, bool]:
    """Name of a step's loop, '' for other ranges, and whether the name alone proves it a step."""
    match = _STEP.match(name.replace("_", " "))
    if match is None:
        return "", False
    numbered = match["number"] is not None
    loop = name[: name.index(match["number"])] if numbered else name
    return loop.strip() or name, numbered and match["sure"] is not None


def may_be_step(name: str) -> bool:
    """Whether `find_steps` can return True for a range of this name."""
    return bool(_step_of(name)[0])


def find_steps(
    names: Sequence[str],
    threads: NDArray[np.int64],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Find the ranges that are steps of a training loop; Boolean mask, (ranges,).

    Args:
        names: Names of the ranges.
        threads: Thread of each range; (ranges,).
        start_ns: Starts; (ranges,).
        end_ns: Ends; (ranges,).
    """
    result = np.zeros(len(names), dtype=bool)
    loops: dict[tuple[str, int], list[int]] = {}
    for row, name in enumerate(names):
        loop, sure = _step_of(name)
        if sure:
            result[row] = True
        elif loop:
            loops.setdefault((loop, int(threads[row])), []).append(row)
    for rows in loops.values():
        if len(rows) >= _FEWEST_REPEATS and _covers(start_ns[rows], end_ns[rows]):
            result[rows] = True
    return result


def _covers(start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> bool:
    """Whether ranges cover at least `_LEAST_COVERED` of the time from the first to the last."""
    span_ns = int(end_ns.max() - start_ns.min())
    return int((end_ns - start_ns).sum()) >= _LEAST_COVERED * span_ns
