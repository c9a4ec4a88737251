"""The words and colours that all reports share, and how a value is put into words."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from stepwhy import units
from stepwhy.text import one_line

if TYPE_CHECKING:
    from stepwhy.findings import (
        BoundBy,
        Evidence,
        FindingVerdict,
        GpuLoad,
        Result,
        Steps,
        Verdict,
    )


class CategoryWords(msgspec.Struct, frozen=True):
    """How one category of a breakdown is shown.

    Args:
        label: Its name for people.
        meaning: One short phrase.
        colour: '#rrggbb'. The ten differ by an OKLab distance of at least 0.08, with normal
            sight and without red, green or blue cones (Machado et al. 2009, severity 1).
        mark: One letter, which stands for the colour where there is none.
    """

    label: str
    meaning: str
    colour: str
    mark: str


CATEGORY_WORDS = {
    "compute": CategoryWords("compute", "device computing", "#607be0", "C"),
    "communication": CategoryWords(
        "communication", "communicating with other devices", "#744a80", "X"
    ),
    "transfer": CategoryWords("transfer", "copying data to or from the device", "#6aa8a4", "T"),
    "input_wait": CategoryWords("input wait", "waiting for the next batch", "#d98c1c", "I"),
    "compile": CategoryWords("compile", "tracing, compiling, first-run set-up", "#943e3c", "B"),
    "sync": CategoryWords("sync", "host waits for the device", "#e8bd0d", "S"),
    "dispatch": CategoryWords("dispatch", "framework launching work", "#b5607a", "D"),
    "python": CategoryWords("python", "your Python code", "#22bffb", "P"),
    "storage": CategoryWords("storage", "checkpoint, summary or log writing", "#7b7a0c", "W"),
    "unexplained": CategoryWords("unexplained", "no evidence", "#bcc1c0", "?"),
}

_CATEGORY_OF_BOUND: dict[BoundBy, str] = {
    "input": "input_wait",
    "host": "dispatch",
    "compute": "compute",
    "communication": "communication",
    "transfer": "transfer",
    "startup": "compile",
    "memory": "sync",
    "storage": "storage",
    "unknown": "unexplained",
}

_FOUND_HOW = {
    "marker": "marked in the trace",
    "hook": "observed as they ran",
    "periodicity": "inferred from repeated operations",
    "whole-trace": "",
}

VERDICT_WORDS: dict[FindingVerdict, str] = {
    "found": "found",
    "clear": "checked, and not present",
    "not_applicable": "not possible in this run",
    "no_data": "the signal is missing",
    "incomplete": "part of the signal is missing",
    "error": "the check itself failed",
}

COULD_NOT_LOOK: tuple[FindingVerdict, ...] = ("no_data", "incomplete", "error")

RISK_WORDS = {
    "none": "",
    "changes-numerics": "may change numerical results; compare a few losses",
    "changes-memory": "needs more or less memory; watch the peak",
    "unknown": "side effects unknown; try it on a short run",
}

NOT_RECORDED = "not recorded"


PARTIAL = "Part of the input could not be read; the figures cover the rest."


def colour_of(bound_by: BoundBy) -> str:
    """The colour of the category that a verdict blames, '#rrggbb'."""
    return CATEGORY_WORDS[_CATEGORY_OF_BOUND[bound_by]].colour


def whole(result: Result) -> str:
    """What the breakdown partitions: 'step', or 'trace' where no steps were found."""
    return "trace" if result.steps.source == "whole-trace" else "step"


def per_whole(result: Result) -> str:
    """What a time holds for: 'per step', or 'of the trace' where no steps were found."""
    return "per step" if whole(result) == "step" else "of the trace"


def is_unsure(verdict: Verdict) -> bool:
    """Whether a verdict was reached, but more likely than certain."""
    return verdict.bound_by != "unknown" and verdict.confidence < 0.5


def is_partial(result: Result) -> bool:
    """Whether an input could not be read in full."""
    return any(
        entry.severity == "error" and entry.count for file in result.inputs for entry in file.health
    )


def is_healthy(result: Result) -> bool:
    """Whether checks looked and found nothing, and the device computes: no cause is left."""
    verdicts = {finding.verdict for finding in result.findings}
    return "found" not in verdicts and "clear" in verdicts and result.verdict.bound_by == "compute"


def share(part_ns: int, wall_ns: int) -> str:
    """A part of the whole as a percentage, '' where there is no whole."""
    return units.format_fraction(part_ns / wall_ns) if wall_ns > 0 else ""


def format_like(ns: int, wall_ns: int) -> str:
    """A duration in the unit and precision of the whole it is part of, so that a column aligns."""
    sizes = ((units.NS_PER_S, "s"), (units.NS_PER_MS, "ms"), (units.NS_PER_US, "µs"))
    size, unit = next((step for step in sizes if wall_ns >= step[0]), (1, "ns"))
    decimals = 0 if wall_ns >= 100 * size or size == 1 else 1 if wall_ns >= 10 * size else 2
    smallest = 10**-decimals
    if 0 < ns < smallest * size / 2:
        return f"<{smallest:.{decimals}f} {unit}"
    return f"{ns / size:.{decimals}f} {unit}"


def format_calls(count: float) -> str:
    """Calls per step: whole above ten, else with what the mean leaves after the point."""
    return units.format_count(count) if count >= 10 or count == int(count) else f"{count:.1f}"


def format_value(fact: Evidence) -> str:
    """The value of a fact with its unit, in words."""
    value = fact.value
    if isinstance(value, str):
        return one_line(value)
    if not math.isfinite(value):
        return NOT_RECORDED
    formats = {
        "ns": units.format_ns,
        "bytes": units.format_bytes,
        "fraction": units.format_fraction,
        "count": format_calls,
    }
    if fact.unit in formats:
        return formats[fact.unit](value)
    return f"{format_calls(value)} {one_line(fact.unit)}".rstrip()


def format_saving(low_ns: int, high_ns: int) -> str:
    """A predicted saving, quantised: '38 to 45 ms', 'up to 2.0 ms'."""
    low, high = _two_digits(low_ns), _two_digits(high_ns)
    if low_ns <= 0:
        return f"up to {high}"
    if low == high:
        return f"about {high}"
    same_unit = low.split()[1] == high.split()[1]
    return f"{low.split()[0] if same_unit else low} to {high}"


def run_line(result: Result) -> str:
    """Step time, framework, devices and ranks, as far as they are known."""
    run, wall = result.run, result.breakdown.wall_ns
    per = "per step" if whole(result) == "step" else "in all"
    models = Counter(one_line(device) for device in run.devices)
    parts = [
        f"{units.format_ns(wall)} {per}" if wall else "",
        one_line(f"{run.framework} {run.framework_version}"),
        ", ".join(f"{n} x {name}" if n > 1 else name for name, n in models.items()),
        f"{run.ranks} of {run.world_size or run.ranks} ranks" if run.ranks > 1 else "",
        one_line(run.command),
    ]
    return " · ".join(filter(None, parts))


# A bound above twice the step bounds nothing.
_MOST_TOLD = 1.0


def _profiler_cost(cost: float, interval: tuple[float, float] | None) -> str:
    """What profiling adds to a step; a cost that may be zero is not told as one."""
    if interval is not None and interval[0] <= 0 <= interval[1]:
        if interval[1] > _MOST_TOLD:
            return "cost of profiling unknown, steps vary too much"
        most = units.format_fraction(max(interval[1], 0.0))
        return f"profiling adds nothing measurable (at most {most})"
    if interval is None:
        return f"profiling adds {units.format_fraction(cost)}"
    if interval[1] < 0:
        shorter = units.format_fraction(-cost)
        return f"the profiled ones were {shorter} shorter than the others, so not typical"
    low, high = (units.format_fraction(x) for x in interval)
    return f"profiling adds {units.format_fraction(cost)} ({low} to {high})"


def parallel_sentence(result: Result) -> str:
    """How well several devices are used together; '' where there are not several."""
    use = result.parallel
    if use is None:
        return ""
    return (
        f"Parallel efficiency of {use.devices} devices: {units.format_fraction(use.efficiency)} "
        f"(load balance {units.format_fraction(use.load_balance)}; the busiest computes for "
        f"{units.format_fraction(use.communication_efficiency)} of the {whole(result)})."
    )


_MADE_ANEW = {"trace": "traced", "compile": "compiled"}


def nothing_found(result: Result) -> str:
    """What it means that no check found anything; a step that waits is not well for that."""
    clear = sum(finding.verdict == "clear" for finding in result.findings)
    if not clear:
        return "Nothing was found, but no check had the data that it needs."
    checks = "1 check" if clear == 1 else f"{clear} checks"
    if is_healthy(result):
        return f"No problem found: {checks} came back clear."
    return f"No check found the cause ({checks} came back clear): {_begin(result)}."


def _begin(result: Result) -> str:
    """Where to begin when no check names a cause."""
    made = [e for e in result.events if e.kind in _MADE_ANEW and e.source]
    if result.verdict.bound_by == "startup" and made:
        most = max(made, key=lambda e: e.total_ns)
        why = f" ({most.first_reason})" if most.first_reason else ""
        again = f"{most.name} was {_MADE_ANEW[most.kind]} {most.count} times"
        return one_line(f"start at {most.source}, where {again}{why}")
    line = one_line(result.breakdown.hottest_line)
    return f"start at {line}" if line else "start with the largest category above"


_HOLDERS = {
    "driver": "Outside the framework, the driving thread spends",
    "worker": "Workers spend",
    "thread": "Other threads spend",
}
_LINES_TOLD = 3


def held_lines(result: Result) -> list[tuple[str, list[tuple[str, str]]]]:
    """Which lines of the program hold its threads, by role: how it begins, and (share, line)."""
    lines = result.host.lines if result.host is not None else ()
    told = []
    for role, beginning in _HOLDERS.items():
        own = [held for held in lines if held.role == role][:_LINES_TOLD]
        if own:
            places = [(units.format_fraction(h.share), one_line(h.line)) for h in own]
            told.append((beginning, places))
    return told


def is_told_by_lines(result: Result) -> bool:
    """Whether the hottest line is the first of the driving thread's sampled lines."""
    lines = result.host.lines if result.host is not None else ()
    first = next((held.line for held in lines if held.role == "driver"), "")
    return bool(first) and first == result.breakdown.hottest_line


def gpu_sentences(result: Result) -> list[str]:
    """What the driver told of each GPU while the run went on, in one line per GPU."""
    return [_gpu(gpu) for gpu in (result.host.gpus if result.host is not None else ())]


def _gpu(gpu: GpuLoad) -> str:
    parts = [one_line(f"{gpu.index} {gpu.model}")]
    if gpu.mean_utilisation is not None:
        parts.append(f"in use {units.format_fraction(gpu.mean_utilisation)} of the time")
    if gpu.peak_used_bytes is not None:
        own = gpu.peak_process_bytes
        by = "" if own is None else f" ({units.format_bytes(own)} by this process)"
        of = f" of {units.format_bytes(gpu.total_bytes)}" if gpu.total_bytes else ""
        parts.append(f"at most {units.format_bytes(gpu.peak_used_bytes)}{of} full{by}")
    elif gpu.peak_process_bytes is not None:
        parts.append(f"at most {units.format_bytes(gpu.peak_process_bytes)} by this process")
    if gpu.throttled_share:
        parts.append(f"slowed down {units.format_fraction(gpu.throttled_share)} of the time")
    return " · ".join(parts)


def steps_sentence(steps: Steps) -> str:
    """How many steps there are, how they were found, how long they take."""
    if steps.source == "whole-trace":
        return "None found: times are for the whole trace, not per step"
    parts = [f"{units.format_count(steps.count)} {_FOUND_HOW[steps.source]}"]
    if steps.confidence < 0.5:
        parts[0] += ", not certain"
    if len(steps.stretches) > 1:
        described = units.format_count(steps.steady + steps.warm_up)
        parts[0] += f"; this report covers {described} of them"
    parts.append(f"median {units.format_ns(steps.median_ns)}")
    parts.append(
        f"8 of 10 between {units.format_ns(steps.p10_ns)} and {units.format_ns(steps.p90_ns)}"
    )
    if steps.warm_up:
        which = "first" if steps.warm_up == 1 else f"first {steps.warm_up}"
        parts.append(f"{which} left out as warm-up")
    if steps.profiler_cost is not None:
        parts.append(_profiler_cost(steps.profiler_cost, steps.profiler_cost_interval))
    return " · ".join(parts)


def _two_digits(ns: int) -> str:
    number, unit = units.format_ns(units.quantise(ns)).split()
    # `format_ns` gives three digits; the third one is a zero here and would feign precision.
    return f"{number[:-1].rstrip('.') if '.' in number else number} {unit}"
