"""What a report says if no check found a problem: whether that is good news, and where to look."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words
from stepwhy.show.lines import largest_lines, unknown_share
from stepwhy.show.words import is_healthy, steps_of_operations, whole

if TYPE_CHECKING:
    from stepwhy.result import Result

_REPEATED = {"trace": "traced", "compile": "compiled"}
_SHOWN = 3
_LEAST_SHOWN = 0.03  # of the step; smaller operations are not worth a name here
_MOST_UNKNOWN = 0.5  # of the step; the lines of the rest are no answer
_UNSEEN = (
    "A trace does not show whether work is needed: look yourself for padding, results that are "
    "computed again in each step, and gradients that nothing uses."
)
_QUIET = "quiet-machine"
_ON_HOST = ("dispatch", "python", "sync", "input_wait")


def nothing_found(result: Result) -> str:
    """Sentences for a result without findings; a step that waits is not healthy."""
    clear = sum(finding.verdict == "clear" for finding in result.findings)
    if not clear:
        return "Nothing was found, but no check had the data that it needs."
    checks = "1 check" if clear == 1 else f"{clear} checks"
    largest = _largest_operations(result)
    if is_healthy(result):
        named = f" The {whole(result)} computes mostly {largest}." if largest else ""
        unknown = _on_busy_machine(result)
        named += _lines(result, "Its longest lines are")
        return f"No known problem found: {checks} came back clear.{named} {_UNSEEN}{unknown}"
    place = _where_to_start(result)
    if not place:
        place = f"start with {largest}" if largest else "start with the largest category above"
    found = f"No check found the cause ({checks} came back clear): {place}."
    lines = _lines(result, "Then look at", after=1)
    return f"{found}{lines}{_on_busy_machine(result)}"


def with_summary(result: Result) -> Result:
    """The result with what all reports say if nothing was found."""
    if words.found(result) or result.verdict.bound_by == "unknown":
        return result
    return replace(result, nothing_found=nothing_found(result))


def _lines(result: Result, verb: str, after: int = 0) -> str:
    """The lines of the program that the step consists of, or why they are not known.

    Args:
        result: The result.
        verb: What to say before their names.
        after: Number of lines that are named already.
    """
    share = unknown_share(result)
    if share > _MOST_UNKNOWN:
        of = "it" if share == 1 else f"{units.format_fraction(share)} of it"
        return f" Which lines of the program cause {of} is not known: {_why_unknown(result)}."
    lines = largest_lines(result)[after:]
    return f" {verb} {_and(lines)}." if lines else ""


def _why_unknown(result: Result) -> str:
    """Why most of the step has no line."""
    if result.lines is None:
        was_observed = result.steps.source == "hook"
        return (
            "no line was recorded" if was_observed else "the trace names none; 'stepwhy run' does"
        )
    rows = (row for row in result.lines.lines if row.kind == "uncredited")
    times = Counter({name: ns for row in rows for name, ns in row.categories.items()})
    ((category, _),) = times.most_common(1) or [("", 0)]
    if category == "unexplained":
        return "nothing shows what the program did meanwhile"
    if result.lines.source == "samples":
        return "there are only stack samples, and most show no line of the program"
    return "most operations were recorded without the line that runs them"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _on_busy_machine(result: Result) -> str:
    """What checks that need a quiet machine say; '' if none misses it."""
    needed = [f for f in result.findings if f.abstention and _QUIET in f.abstention.missing]
    return "".join(f" Not known ({finding.id}): {one_line(finding.reason)}" for finding in needed)


def _where_to_start(result: Result) -> str:
    """The recompiled function or the hottest line of the program; '' if none is known."""
    repeated = [e for e in result.events if e.kind in _REPEATED and e.source]
    if result.verdict.bound_by == "startup" and repeated:
        most = max(repeated, key=lambda e: e.total_ns)
        why = f" ({most.first_reason})" if most.first_reason else ""
        again = f"{most.name} was {_REPEATED[most.kind]} {most.count} times"
        return one_line(f"start at {most.source}, where {again}{why}")
    is_known = unknown_share(result) <= _MOST_UNKNOWN
    hottest = one_line(result.breakdown.hottest_line)
    line = next(iter(largest_lines(result) if is_known else ()), hottest)
    return f"start at {line}" if line else ""


def _largest_operations(result: Result) -> str:
    """The operations that take most of the step, with their shares; '' if none is large."""
    categories = result.breakdown.categories
    largest_part = max(categories, key=lambda name: categories[name], default="")
    has_devices = any(op.device != "host" for op in result.ops)
    if largest_part in _ON_HOST and has_devices:
        rows = [op for op in result.ops if op.device == "host"]
    elif largest_part == "compute":
        rows = [op for op in result.ops if (op.device != "host") == has_devices]
    else:
        return ""
    # An operation may have a row for each phase of a device; devices work at the same time.
    sums: Counter[tuple[str, str]] = Counter()
    for op in rows:
        sums[op.name, op.device] += op.self_ns
    shares: dict[str, float] = {}
    steps = steps_of_operations(result)
    for (name, device), self_ns in sums.items():
        shares[name] = max(shares.get(name, 0.0), self_ns / max(steps[device], 1))
    largest = sorted(shares, key=lambda name: -shares[name])[:_SHOWN]
    named = [
        f"{one_line(short_name(name))} ({units.format_fraction(shares[name])})"
        for name in largest
        if shares[name] > _LEAST_SHOWN
    ]
    return _and(named)
