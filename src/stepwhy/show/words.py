"""Words and colours that all reports share, and the formatting of values."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import (
        BoundBy,
        Breakdown,
        Evidence,
        Finding,
        FindingVerdict,
        GpuLoad,
        Result,
        Steps,
        Verdict,
    )


class CategoryWords(msgspec.Struct, frozen=True):
    """Label, meaning and colour of one category of the breakdown.

    Args:
        label: Its name in reports.
        meaning: One short phrase.
        colour: '#rrggbb'. The ten differ by an OKLab distance of at least 0.08, with normal
            vision and without red, green or blue cones (Machado et al. 2009, severity 1).
        mark: One letter, used instead of the colour in terminals without colours.
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
    "sync": CategoryWords("sync", "host in a synchronising call", "#e8bd0d", "S"),
    "dispatch": CategoryWords("dispatch", "framework launching work", "#b5607a", "D"),
    "python": CategoryWords("python", "your Python code", "#22bffb", "P"),
    "storage": CategoryWords("storage", "checkpoint, summary or log writing", "#7b7a0c", "W"),
    "unexplained": CategoryWords("unexplained", "cause not found", "#bcc1c0", "?"),
}

_CATEGORY_OF_BOUND: dict[str, str] = {
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

_STEP_SOURCES = {
    "marker": "marked in the trace",
    "hook": "observed during the run",
    "periodicity": "inferred from repeated operations",
    "whole-trace": "",
}

VERDICT_WORDS: dict[FindingVerdict, str] = {
    "found": "found",
    "clear": "checked, and not present",
    "not_applicable": "does not apply",
    "no_data": "the signal is missing",
    "incomplete": "part of the signal is missing",
    "error": "the check itself failed",
}

# A described step that differs from the median by less than this share is not worth two numbers.
_ALIKE = 0.1
# Of fewer steady steps than this, the shortest and the longest are shown, and no deciles.
ENOUGH_STEPS = 10

# Categories of the step in which no operation runs.
_WITHOUT_OPERATIONS = ("sync", "dispatch", "python", "unexplained")

ABSTAINED: tuple[FindingVerdict, ...] = ("no_data", "incomplete", "error")

NOT_RECORDED = "not recorded"


PARTIAL = "Part of the input could not be read; the figures cover the rest."


def category_of(bound_by: str) -> str:
    """The category behind a verdict; 'unexplained' for a verdict that is not known."""
    return _CATEGORY_OF_BOUND.get(bound_by, "unexplained")


def colour_of(bound_by: BoundBy) -> str:
    """Colour of the category behind a verdict, '#rrggbb'."""
    return CATEGORY_WORDS[category_of(bound_by)].colour


def whole(result: Result) -> str:
    """The unit that the breakdown divides: 'step', a single 'run', or 'trace' without steps."""
    if are_lone_runs(result):
        return "run"
    return "trace" if result.steps.source == "whole-trace" else "step"


def per_whole(result: Result) -> str:
    """The unit that a time refers to: 'per step', 'of the run', or 'of the trace'."""
    unit, clock = whole(result), result.wall_clock
    is_mean = unit == "step" or (clock is not None and clock.runs > 1)
    return f"per {unit}" if is_mean else f"of the {unit}"


def are_lone_runs(result: Result) -> bool:
    """Whether the record holds one run of a graph, or two, none of which is steady."""
    return result.wall_clock is not None and not result.wall_clock.steady


def wall_clock_sentence(result: Result) -> str:
    """The wall clock against the timeline; '' where no runs of a graph were recorded."""
    return "" if result.wall_clock is None else one_line(result.wall_clock.sentence)


def is_unsure(verdict: Verdict) -> bool:
    """Whether the verdict is likely, but not certain."""
    return verdict.bound_by != "unknown" and verdict.confidence < 0.5


def is_partial(result: Result) -> bool:
    """Whether an input could not be read in full."""
    return any(
        entry.severity == "error" and entry.count for file in result.inputs for entry in file.health
    )


def is_healthy(result: Result) -> bool:
    """Whether no check found a problem, at least one was clear, and the step is compute-bound."""
    verdicts = {finding.verdict for finding in result.findings}
    return "found" not in verdicts and "clear" in verdicts and result.verdict.bound_by == "compute"


def share(part_ns: int, wall_ns: int) -> str:
    """A part of the whole as a percentage; '' if the whole is zero."""
    return units.format_fraction(part_ns / wall_ns) if wall_ns > 0 else ""


def steps_of_operations(result: Result) -> dict[str, int]:
    """The time that shares of operations refer to, ns, by device.

    It is the step. Where the operations of a device take longer in all than the step has room for,
    because they run at the same time or were slowed down by a profiler, it is as many times longer.
    """
    sums: Counter[str] = Counter()
    for op in result.ops:
        sums[op.device] += op.self_ns
    wall_ns, categories = result.breakdown.wall_ns, result.breakdown.categories
    room_ns = wall_ns - sum(categories[name] for name in _WITHOUT_OPERATIONS)
    return {
        # Beside an accelerator, operations of the host launch work in such times, too.
        device: round(wall_ns * max(1.0, sum_ns / max(wall_ns if aside else room_ns, 1)))
        for device, sum_ns in sums.items()
        for aside in [device == "host" and len(sums) > 1]
    }


def format_like(ns: int, wall_ns: int) -> str:
    """A duration in the unit and precision of the whole, so that a column aligns."""
    sizes = ((units.NS_PER_S, "s"), (units.NS_PER_MS, "ms"), (units.NS_PER_US, "µs"))
    size, unit = next((step for step in sizes if wall_ns >= step[0]), (1, "ns"))
    decimals = 0 if wall_ns >= 100 * size or size == 1 else 1 if wall_ns >= 10 * size else 2
    smallest = 10**-decimals
    if 0 < ns < smallest * size / 2:
        return f"<{smallest:.{decimals}f} {unit}"
    return f"{ns / size:.{decimals}f} {unit}"


def format_calls(count: float) -> str:
    """Calls per step: an integer from ten on, else with one decimal if it is not whole."""
    return units.format_count(count) if count >= 10 or count == int(count) else f"{count:.1f}"


def format_value(fact: Evidence) -> str:
    """The value of evidence with its unit."""
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
    return span(low, high)


def span(low: str, high: str) -> str:
    """Two times as an interval, with the unit once if both have the same."""
    same_unit = low.split()[1] == high.split()[1]
    return f"{low.split(maxsplit=1)[0] if same_unit else low} to {high}"


def _ranks(count: int, world_size: int | None) -> str:
    """How many ranks were read, and of how many in the job if that is known."""
    return f"{count} ranks" if world_size is None else f"{count} of {world_size} ranks"


def run_line(result: Result) -> str:
    """Step time, framework, devices, ranks and command, as far as they are known."""
    run, wall = result.run, result.breakdown.wall_ns
    per = per_whole(result)
    per = per if per.startswith("per ") else "in all"
    models = Counter(one_line(device) for device in run.devices)
    parts = [
        f"{units.format_ns(wall)} {per}" if wall else "",
        one_line(f"{run.framework} {run.framework_version}"),
        ", ".join(f"{n} x {name}" if n > 1 else name for name, n in models.items()),
        _ranks(run.ranks, run.world_size) if run.ranks > 1 else "",
        one_line(run.command),
    ]
    return " · ".join(filter(None, parts))


# Relative cost; with a larger upper bound, it is not known that profiling adds little.
_LARGEST_BOUND = 0.2


def _profiler_cost(cost: float, interval: tuple[float, float] | None) -> str:
    """Cost of profiling a step; not given as a number if its interval contains zero."""
    if interval is not None and interval[0] <= 0 <= interval[1]:
        if interval[1] > _LARGEST_BOUND:
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


def phase_sentence(breakdown: Breakdown) -> str:
    """How compute time divides into phases; '' if no phase is known."""
    known = {name: ns for name, ns in breakdown.phases.items() if name != "unknown" and ns > 0}
    total, unknown = sum(breakdown.phases.values()), breakdown.phases.get("unknown", 0)
    if not known:
        return ""
    parts = ", ".join(f"{one_line(name)} {share(ns, total)}" for name, ns in known.items())
    rest = f", unknown phase {share(unknown, total)}" if unknown > 0 else ""
    return f"Compute time: {parts}{rest}."


def parallel_sentence(result: Result) -> str:
    """Parallel efficiency of several devices; '' for a single device."""
    use = result.parallel
    if use is None:
        return ""
    return (
        f"Parallel efficiency of {use.devices} devices: {units.format_fraction(use.efficiency)} "
        f"(load balance {units.format_fraction(use.load_balance)}; the busiest computes for "
        f"{units.format_fraction(use.communication_efficiency)} of the {whole(result)})."
    )


def found(result: Result) -> list[Finding]:
    """What to change: the findings that no other explains."""
    return [f for f in result.findings if f.verdict == "found" and not f.explained_by]


def notes(result: Result) -> list[str]:
    """The notes, without how the run ended, which stands first in every report."""
    return [note for note in result.notes if note != result.run.ending]


def gpu_sentences(result: Result) -> list[str]:
    """Use, memory and throttling of each GPU as the driver reported them, one line per GPU."""
    return [_gpu(gpu) for gpu in (result.host.gpus if result.host is not None else ())]


def _gpu(gpu: GpuLoad) -> str:
    parts = [one_line(f"{gpu.index} {gpu.model}")]
    if gpu.mean_utilisation is not None:
        parts.append(f"in use {units.format_fraction(gpu.mean_utilisation)} of the time")
    if gpu.peak_used_bytes is not None:
        own = gpu.peak_process_bytes
        by = "" if own is None else f" ({units.format_bytes(own)} by this process)"
        of = f" of {units.format_bytes(gpu.total_bytes)}" if gpu.total_bytes else ""
        parts.append(f"at most {units.format_bytes(gpu.peak_used_bytes)}{of} used{by}")
    elif gpu.peak_process_bytes is not None:
        parts.append(f"at most {units.format_bytes(gpu.peak_process_bytes)} by this process")
    if gpu.throttled_share:
        parts.append(f"throttled {units.format_fraction(gpu.throttled_share)} of the time")
    return " · ".join(parts)


_ONE_RUN = (
    "One run, and no other to compare it with: the first runs prepare the graph. To time a steady "
    "one, call session.run 20 times or more in a loop, under 'stepwhy run'"
)


def steps_line(result: Result) -> str:
    """Number of steps, how they were found, and how long they take; what one run cannot show."""
    clock = result.wall_clock
    if clock is not None and clock.runs == 1:
        return _ONE_RUN
    line = steps_sentence(result.steps, result.breakdown.wall_ns)
    is_short = clock is not None and clock.steady < ENOUGH_STEPS
    return f"{line} · too few for a steady state" if is_short else line


def steps_sentence(steps: Steps, wall_ns: int) -> str:
    """Number of steps, how they were found, and how long they take.

    Args:
        steps: The steps.
        wall_ns: Time of the step that the breakdown describes.
    """
    if steps.source == "whole-trace":
        return "None found: times are for the whole trace, not per step"
    parts = [f"{units.format_count(steps.count)} {_STEP_SOURCES[steps.source]}"]
    if steps.confidence < 0.5:
        parts[0] += ", not certain"
    if len(steps.stretches) > 1:
        described = units.format_count(steps.steady + steps.warm_up)
        parts[0] += f"; this report covers {described} of them"
    parts.extend(_lengths(steps, wall_ns))
    if steps.warm_up:
        which = "first" if steps.warm_up == 1 else f"first {steps.warm_up}"
        parts.append(f"{which} left out as warm-up")
    if steps.profiler_cost is not None:
        parts.append(_profiler_cost(steps.profiler_cost, steps.profiler_cost_interval))
    return " · ".join(parts)


def _lengths(steps: Steps, wall_ns: int) -> Iterator[str]:
    """How long the steps take; first the described one where the median is another."""
    if abs(wall_ns - steps.median_ns) > _ALIKE * wall_ns:
        yield f"{units.format_ns(wall_ns)} on average"
    if steps.count == 1:
        yield units.format_ns(steps.median_ns)
    else:
        yield f"median {units.format_ns(steps.median_ns)}"
        steady = steps.durations_ns[steps.warm_up :]
        if len(steady) < ENOUGH_STEPS and len(steady) == steps.steady:
            if len(steady) > 1:
                yield span(units.format_ns(min(steady)), units.format_ns(max(steady)))
            return
        low, high = units.format_ns(steps.p10_ns), units.format_ns(steps.p90_ns)
        yield f"8 of 10 between {low} and {high}"


def _two_digits(ns: int) -> str:
    number, unit = units.format_ns(units.quantise(ns)).split()
    # `format_ns` gives three digits; the third one is always zero here, so drop it.
    return f"{number[:-1].rstrip('.') if '.' in number else number} {unit}"
