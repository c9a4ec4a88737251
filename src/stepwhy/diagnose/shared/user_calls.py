"""Calls in the code of fixes, as the program writes them, with only the changed arguments new.

Code of a fix leaves out what it does not change: `DataLoader(..., num_workers=2)`. Where the call
of the program is recorded, it takes the place of the three dots.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.base.patterns import regex
from stepwhy.result import Finding
from stepwhy.trace import NULL, Trace

_CALL = regex(
    r"(?P<before>^ *(?:\w+ = )?)(?:\w+\.)*(?P<name>\w+)\(\s*\.\.\.,(?P<new>[^()]*)\)", re.MULTILINE
)
_MADE = "made"
_WIDEST = 73  # columns: a terminal of 80 less the indentation of the report
# Arguments that are often passed by position.
# Source: torch/utils/data/dataloader.py, 1.13 to 2.13; tensorflow/python/client/session.py,
# tensorflow/python/data/ops/dataset_ops.py, tensorflow/python/training/basic_session_run_hooks.py
# and keras/src/trainers/trainer.py of TensorFlow 2.21 and Keras 3.15.
_POSITIONS = {
    "DataLoader": ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers"),
    "Session": ("target", "graph", "config"),
    "map": ("map_func", "num_parallel_calls"),
    "interleave": ("map_func", "cycle_length", "block_length", "num_parallel_calls"),
    "batch": ("batch_size", "drop_remainder", "num_parallel_calls"),
    "padded_batch": ("batch_size", "padded_shapes", "padding_values", "drop_remainder"),
    "CheckpointSaverHook": ("checkpoint_dir", "save_secs", "save_steps"),
    "fit": ("x", "y", "batch_size", "epochs"),
}


def in_users_words(finding: Finding, facts: Facts) -> Finding:
    """A finding whose fix shows the calls of the program, as far as they are recorded.

    Args:
        finding: The finding.
        facts: Facts of the run.
    """
    fix = finding.fix
    if fix is None or "...," not in fix.code:
        return finding
    named = [fact.where for fact in finding.evidence]
    code = _CALL.sub(lambda found: _filled(found, facts.trace, named), fix.code)
    return replace(finding, fix=replace(fix, code=code))


def _filled(found: re.Match[str], trace: Trace, named: Sequence[str]) -> str:
    """A call of the fix, with the arguments of the program's call, best at one of these lines."""
    row = _row_of(trace, found["name"], named)
    call = None if row is None else parsed(trace.string(int(trace.events.reason[row])))
    if row is None or call is None:
        return found[0]
    new = ast.parse(f"f({found['new'].strip()})", mode="eval").body
    assert isinstance(new, ast.Call)  # noqa: S101 - it was written as one
    change(call, found["name"], new.keywords)
    source = trace.events.source[row]
    line = trace.string(int(source)).rpartition(": ")[0] if source != NULL else ""
    comment = f"{_indent(found['before'])}# {line}\n" if line else ""
    return comment + laid_out(found["before"], call)


def _row_of(trace: Trace, name: str, named: Sequence[str]) -> int | None:
    """The event of such a call.

    Of several, that of the first of these lines; of several loaders, the one sampled most.
    """
    events, sampled = trace.events, trace.levels.queue
    rows = [
        row
        for row in np.flatnonzero(np.isin(events.kind, trace.strings_where({_MADE}))).tolist()
        if events.reason[row] != NULL
        and not trace.string(int(events.name[row])).startswith("tf.data[")
        and re.search(rf"\b{name}\(", trace.string(int(events.reason[row])))
    ]

    def rank(row: int) -> tuple[int, int]:
        source = events.source[row]
        line = trace.string(int(source)) if source != NULL else ""
        place = named.index(line) if line and line in named else len(named)
        return -place, int((sampled == events.name[row]).sum())

    return max(rows, key=rank, default=None)


def parsed(text: str) -> ast.Call | None:
    """A recorded call; None if arguments may hide in it, as in `**options`, or it is damaged."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call) or any(keyword.arg is None for keyword in call.keywords):
        return None
    return None if any(isinstance(value, ast.Starred) for value in call.args) else call


def change(call: ast.Call, name: str, changed: list[ast.keyword]) -> None:
    """Give a call new values of arguments, which it may pass by position."""
    names = {keyword.arg for keyword in changed}
    call.keywords = [keyword for keyword in call.keywords if keyword.arg not in names]
    places = _POSITIONS.get(name, ())[: len(call.args)]
    for keyword in changed:
        if keyword.arg in places:
            call.args[places.index(keyword.arg)] = keyword.value
        else:
            call.keywords.append(keyword)


def laid_out(before: str, call: ast.Call) -> str:
    """A call in one line, or with a line for each argument."""
    line = before + ast.unparse(call)
    if len(line) <= _WIDEST:
        return line
    indent = _indent(before)
    values = [*map(ast.unparse, call.args), *map(ast.unparse, call.keywords)]
    inside = "".join(f"{indent}    {value},\n" for value in values)
    return f"{before}{ast.unparse(call.func)}(\n{inside}{indent})"


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
