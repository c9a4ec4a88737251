"""Python code of the program runs while the device, or the CPU's kernels, could compute.

## What it means
Between two calls of the framework, the loop runs Python of its own: loops over samples, lists that
are built element by element, values that are read one by one (`.item()`), metrics, logs, strings.

## Why it costs
Python executes some ten million simple operations per second, on one core. A loop over 10,000
elements takes milliseconds where an operation on the whole array takes microseconds, and the next
step is launched only after it.

## How it is measured
The cost is the time of the mean step in which the driving thread is in Python outside the framework
and nothing computes, at most the share of its stack samples in lines of the program, and no more at
a line than the breakdown by line has as Python there. Callbacks are left out: `host-callback`
judges them. Where single elements of tensors are read, the operations of that loop are part of the
cost, less what recording them takes, and so is Python at its lines. The samples also name the lines
and the function. In the trace of another profiler, its Python frames do, if one function takes most
of this time by itself: what is spread over many functions launches work. Python of a library that
runs the loop, such as that of a trainer, is not the program's; it is reported from a quarter of the
step on.

## Fix
Work on whole arrays instead of single elements. Do what does not depend on the step once, before
the loop. Prepare batches ahead, in other processes.

## Fix risk
None, if the results are the same.

## When it abstains
If no stack was sampled and the trace has no Python frames, unless single elements are read. Does
not apply to loops that feed placeholders: `python-preprocessing` judges their Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.breakdown.own_python import own_share
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.steps.sampled_lines import (
    LibraryLoop,
    driver_lines,
    function_of,
    library_loop,
    place_of,
)
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.eager_calls import ElementLoop, eager_loop, element_loop
from stepwhy.diagnose.shared.measure import by_string, times
from stepwhy.diagnose.shared.program import feeds_placeholders
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.steady_events import cost_per_step, steady_events
from stepwhy.diagnose.shared.work_lines import work_lines
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Python between the framework's calls",
    found="Run less Python in the loop",
    clear="Python of the program takes little of the step",
    needs=(("steps",),),
    refines="wall-device-gap",
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.6,  # of the cost; work on whole arrays takes time, too
    change="remove python",
    edit=Edit("python", "gone"),
)


LIBRARY_SHARE = 0.25  # of the step; the program can change less of it than of its own Python

_SHOWN = 3
# Choosing elements of a list by these takes microseconds each.
_RANDOM_ACCESS = ("python: Random.sample", "python: Random.choice")
# NumPy's global functions of these names arrange all n numbers to draw some of them.
_ARRANGING = regex(r"\b(?:choice|permutation)\b")
_OF_PYTHON = ("python", "unexplained")  # no record shows Python, and stack samples only some of it


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the driving thread runs Python of the program."""
    if feeds_placeholders(facts):
        return RULE.not_applicable("The loop feeds placeholders: see python-preprocessing.")
    lines, elements = driver_lines(facts.sampled), element_loop(facts)
    if elements is not None:
        return _of_elements(facts, elements, lines)
    if lines is None:
        return _from_trace(facts)
    loop = library_loop(facts.sampled)
    if loop is not None:
        lines = _without(lines, loop)
    cost = min(_outside(facts), _own_ns(facts, lines))
    if loop is not None and cost < RULE.least_share * facts.wall_ns:
        return _of_library(facts, loop, cost)
    function, of_function = _function(lines)
    named = Evidence(
        "samples of the driving thread in one function", of_function, "fraction", function
    )
    hottest = _line_evidence(lines)
    return _judge(facts, cost, (named, *hottest), RULE.fix(_advice(facts, hottest)))


def _without(lines: Counter[tuple[str, bool]], loop: LibraryLoop) -> Counter[tuple[str, bool]]:
    """The samples by line, those in Python of a library at no line of the program."""
    moved = Counter({("", False): loop.samples})
    return lines - Counter({(loop.line, False): loop.samples}) + moved


def _of_library(facts: Facts, loop: LibraryLoop, own_ns: int) -> Finding:
    """Judge the Python of a library that runs the loop, where the program's own is short."""
    spent = min(round(loop.share * facts.wall_ns), facts.breakdown["python"])
    share = spent / max(facts.wall_ns, 1)
    library = Evidence("share of the step in Python of the library", share, "fraction", loop.line)
    if share < LIBRARY_SHARE:
        own = Evidence("share of the step", own_ns / max(facts.wall_ns, 1), "fraction")
        return RULE.nothing((own, library))
    called = Evidence("what runs the loop", loop.called, "")
    return RULE.finding(spent, (library, called), RULE.fix("library"), title=_LIBRARY)


def _advice(facts: Facts, hottest: tuple[Evidence, ...]) -> str:
    """Which advice fits what the line with most samples outside the framework calls."""
    samples = facts.sampled.samples
    lines = facts.sampled.strings_where([one.where for one in hottest[:1]])
    at = np.isin(samples.line, lines)
    drawn = at & np.isin(samples.called, facts.sampled.strings_where(_RANDOM_ACCESS))
    if 2 * samples.count[drawn].sum() > samples.count[at].sum():
        return "random-access"
    arranged = facts.sampled.matches(samples.names[at], _ARRANGING.search)
    return "drawn-few" if arranged.any() else "any"


def _own_ns(facts: Facts, lines: Counter[tuple[str, bool]]) -> int:
    """Time of the step that the samples and the breakdown by line both give to own Python, ns.

    A call of an operation, of the backward pass or of something that waits is a sample at the line
    of the program, too: where the time of lines is known, only their Python counts.
    """
    sampled_ns = round(own_share(lines) * facts.wall_ns)
    rows = facts.derived(line_breakdown)
    if rows is None or rows.source == "samples":
        return sampled_ns
    python: Counter[str] = Counter()
    for row in rows.lines:
        python[place_of(row.line)] += sum(row.categories.get(c, 0) for c in _OF_PYTHON)
    own: Counter[str] = Counter()
    for (line, in_framework), count in lines.items():
        if line and not in_framework:
            own[place_of(line)] += count
    ns_per_sample = facts.wall_ns / lines.total()
    return round(sum(min(count * ns_per_sample, python[at]) for at, count in own.items()))


def _of_elements(
    facts: Facts, elements: ElementLoop, lines: Counter[tuple[str, bool]] | None
) -> Finding:
    """Judge a loop over single elements of tensors."""
    strings = facts.derived(slice_lines)[elements.calls]
    at = {facts.trace.string(one) for one in np.unique(strings[strings != NULL]).tolist()}
    if at:
        cost, evidence = _python_at(facts, at), work_lines(facts, elements.calls)
        where = work_lines(facts, elements.reads)[0].where
    elif lines is not None:
        where, share = _function(lines)
        # Python makes a tensor of each element, for which there is no operation.
        around = _outside(facts) + facts.breakdown["unexplained"]
        cost = min(around, round(share * facts.wall_ns) - elements.cost_ns)
        evidence = _line_evidence(lines)
    else:
        cost, evidence, where = elements.python_ns, (), ""
    reads = Evidence("single elements read per step", elements.per_step, "count", where)
    cost = max(cost + elements.cost_ns, 0)
    evidence = (reads, *evidence, *_garbage(facts))
    way = "each-tensor" if elements.of_tensors else "whole-tensors"
    return _judge(facts, cost, evidence, RULE.fix(way))


def _garbage(facts: Facts) -> tuple[Evidence, ...]:
    """Time per step in which the garbage of the elements is collected, where that recurs."""
    collecting = steady_events(facts, rows_of_kinds(facts.trace, "gc"))
    if not collecting.recur:
        return ()
    return (Evidence("pauses of the garbage collector", cost_per_step(facts, collecting), "ns"),)


def _python_at(facts: Facts, lines: Collection[str]) -> int:
    """Time of the step in Python at some lines, or there without an explanation, ns."""
    rows = facts.derived(line_breakdown)
    return sum(
        row.categories.get(category, 0)
        for row in (rows.lines if rows else ())
        if row.line in lines
        for category in _OF_PYTHON
    )


def _outside(facts: Facts) -> int:
    """Time of the step in Python between the framework's calls, ns.

    What lies between many small operations is left out: it launches them. So are pauses of the
    garbage collector, unless single elements make the garbage.
    """
    loop = eager_loop(facts)
    collecting = steady_events(facts, rows_of_kinds(facts.trace, "gc"))
    left_out = facts.callback_ns + (loop.python_ns if loop else 0)
    if collecting.recur and element_loop(facts) is None:
        left_out += cost_per_step(facts, collecting)
    return max(facts.breakdown["python"] - left_out, 0)


def _judge(facts: Facts, cost: int, evidence: tuple[Evidence, ...], fix: Fix) -> Finding:
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        clear = RULE.nothing((share,))
        return clear if facts.share("python") < _MUCH else replace(clear, title=_ELSEWHERE)
    return RULE.finding(cost, (share, *evidence), fix)


def _function(lines: Counter[tuple[str, bool]]) -> tuple[str, float]:
    """The function with most samples outside the framework, and its share of all samples."""
    own: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for (line, in_framework), count in lines.items():
        function = function_of(line)
        every[function] += count
        own[function] += 0 if in_framework or not line else count
    function = max(own, key=lambda name: own[name])
    return function, every[function] / every.total()


def _line_evidence(lines: Counter[tuple[str, bool]]) -> tuple[Evidence, ...]:
    """The lines with most samples outside the framework."""
    total = lines.total()
    own = {line: n for (line, in_framework), n in lines.items() if line and not in_framework}
    hottest = sorted(own, key=lambda line: -own[line])[:_SHOWN]
    return tuple(
        Evidence("stack samples outside the framework", own[line] / total, "fraction", line)
        for line in hottest
    )


def _from_trace(facts: Facts) -> Finding:
    """Judge the trace of another profiler by its Python frames."""
    slices, rows = facts.trace.slices, facts.slices(Kind.PYTHON, steady=True)
    rows = rows[slices.source[rows] != NULL]
    if not len(rows):
        return RULE.no_data("stacks", _NO_STACKS)
    groups = by_string(facts, slices.source[rows], facts.nesting.self_ns(rows))[:_SHOWN]
    evidence = times(facts, "time of the function itself", groups)
    if facts.mean_ns(groups[0].total_ns) < RULE.least_share * facts.wall_ns:
        # Spread over many functions: what launches work, see launch-bound.
        return replace(RULE.nothing(evidence[:1]), title=_SPREAD)
    return _judge(facts, _outside(facts), evidence, RULE.fix("any"))


_LIBRARY = "Give each step more work: the library that runs the loop takes much of it"
_MUCH = 2 * RULE.least_share
_ELSEWHERE = "Most of the program's Python is in what other checks judge"
_SPREAD = "No single Python function takes much of the step"
_NO_STACKS = (
    "No stack of the training was sampled, and the trace has no Python frames. 'stepwhy run' "
    "samples stacks if the training lasts for some seconds."
)
