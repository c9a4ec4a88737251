"""Autograd functions of the program that run Python, by stack samples.

PyTorch records a `torch.autograd.Function` as one operation, whether it calls operations, a kernel
of an extension, or NumPy. What it spends outside of other operations is Python if it was sampled in
several of its lines, or in a package other than PyTorch. In one line alone, it may be in a kernel.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.trace import NULL, Columns, DeviceKind, Kind

if TYPE_CHECKING:
    from stepwhy.trace import Trace

_ENTRY = "autograd.Function "
_LEAST_ELSEWHERE = 0.05  # of the samples; NumPy's functions that are written in Python are rare
_MOST_IN_ONE_LINE = 0.8  # of the samples; a line that calls a kernel has almost all of them
_FEWEST_SAMPLES = 10  # fewer do not show how a function divides its time


def mark_functions(trace: Trace) -> Trace:
    """The trace with such functions as slices of Python, instead of as operations.

    With an accelerator nothing is changed: there, such functions mostly launch kernels.

    Args:
        trace: The trace, with `samples`.
    """
    names = _in_python(trace)
    if not names or (trace.devices.kind != DeviceKind.CPU).any():
        return trace
    called = trace.strings_where([*names, *(f"{name}Backward" for name in names)])
    is_called = np.isin(trace.slices.name, called) & trace.is_kind(Kind.OP)
    kinds = np.where(is_called, np.int8(Kind.PYTHON), trace.slices.kind)
    return replace(trace, slices=Columns(**{**vars(trace.slices), "kind": kinds}))


def _in_python(trace: Trace) -> list[str]:
    """Classes of the program whose functions run Python."""
    samples, text = trace.samples, trace.string
    lines: defaultdict[str, Counter[int]] = defaultdict(Counter)
    elsewhere: Counter[str] = Counter()
    columns = (samples.entry, samples.line, samples.package, samples.count)
    for entry, line, package, count in zip(*(c.tolist() for c in columns), strict=True):
        if entry != NULL and text(entry).startswith(_ENTRY):
            name = text(entry).removeprefix(_ENTRY)
            lines[name][line] += count
            elsewhere[name] += count if text(package) not in {"", "torch"} else 0
    return [name for name in lines if _runs_python(lines[name], elsewhere[name])]


def _runs_python(lines: Counter[int], elsewhere: int) -> bool:
    total = lines.total()
    in_one_line = max(lines.values()) / total
    varied = elsewhere >= _LEAST_ELSEWHERE * total or in_one_line <= _MOST_IN_ONE_LINE
    return total >= _FEWEST_SAMPLES and varied


__all__ = ["mark_functions"]
