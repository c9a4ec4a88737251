"""What a range is, by its name: on a device always, on the host where the name is well known.

Source: HLO opcodes of XLA; IBM/aiu-trace-analyzer (an AIU's input DMA, its wait for input, its
computation, its output DMA); MindStudio's names for an NPU's tasks and for calls of AscendCL;
VizTracer's 'function (file:line)'.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import activity_row
from stepwhy.read.shared.cuda import call_kind, kernel_copy, kind_of, named_direction
from stepwhy.read.shared.nvtx import read_range, without_homes
from stepwhy.read.shared.ranges import annotation
from stepwhy.trace import Copy, Kind, Phase


class Meaning(NamedTuple):
    """The meaning of a name.

    Args:
        kind: Kind of the range.
        name: Name to show, without home folders; for a function without its file.
        source: The line of a Python function, 'file(line): function', or ''.
        copy: Direction of a copy.
        phase: Phase of the step where the name decides it.
    """

    kind: Kind
    name: str
    source: str = ""
    copy: Copy = Copy.NONE
    phase: Phase = Phase.UNKNOWN


# --- device rows -------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def on_device(name: str) -> Meaning:
    """What a range of a device row is; without a sign of anything else it computes."""
    shown = without_homes(name)
    if annotation(name)[0] is Kind.STEP:
        return Meaning(Kind.DEVICE_ANNOTATION, shown)
    kind = kind_of(activity_row(name))
    if kind is Kind.COLLECTIVE:
        return Meaning(kind, shown, phase=Phase.COMMUNICATION)
    if kind is Kind.MEMCPY:
        return Meaning(kind, shown, copy=kernel_copy(name) or named_direction(name))
    return Meaning(kind, shown)


# --- host threads ------------------------------------------------------------------------------

_API = regex(r"(?:(?:cuda|cu|hip)[A-Z]|AscendCL@acl)\w+")
_FUNCTION = regex(r"(?P<function>.+) \((?P<file>[^()]+):(?P<line>\d+)\)", re.DOTALL)
_NUMBER = regex(r"\d")
_VIZTRACER = "FEE"


@lru_cache(maxsize=1 << 16)
def on_host(name: str, category: str) -> Meaning:
    """What a range of a host thread is; without a sign of anything else just a range.

    Args:
        name: Its name.
        category: Its category.
    """
    function = _FUNCTION.fullmatch(name)
    if function is not None:
        # 'file(line): function' with at most the last three components of the path.
        file = without_homes(function["file"]).removeprefix("~/")
        tail = "/".join(file.split("/")[-3:])
        line = f"{tail}({function['line']}): {function['function']}"
        return Meaning(Kind.PYTHON, function["function"], line)
    if category == _VIZTRACER:
        return Meaning(Kind.PYTHON, without_homes(name))
    if _API.fullmatch(name):
        return Meaning(call_kind(name), name)
    one = read_range(name)
    return Meaning(one.kind, one.name, one.source, phase=one.phase)


def loop_name(name: str) -> str:
    """By which name a range may be a step: a function's own, unless it is a numbered one."""
    function = _FUNCTION.fullmatch(name)
    if function is None:
        return name
    return "" if _NUMBER.search(function["function"]) else function["function"]


def is_api_call(name: str) -> bool:
    """Whether a range of the host is a call of a device's API."""
    return _API.fullmatch(name) is not None
