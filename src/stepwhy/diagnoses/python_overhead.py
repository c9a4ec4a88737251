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
and nothing computes, at most the share of its stack samples in lines of the program. Callbacks are
left out: `host-callback` judges them. Where single elements of tensors are read, the operations
that do so are part of the cost. The samples also name the lines and the function. In the trace of
another profiler, its Python frames do, if one function takes most of this time by itself: what is
spread over many functions launches work.

## Fix
Work on whole arrays instead of single elements. Do what does not depend on the step once, before
the loop. Prepare batches ahead, in other processes.

## Fix risk
None, if the results are the same.

## When it abstains
If no stack was sampled and the trace has no Python frames. Does not apply to loops that feed
placeholders: `python-preprocessing` judges their Python.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.diagnoses.shared.eager_calls import eager_loop, single_elements
from stepwhy.diagnoses.shared.measure import by_string, times
from stepwhy.diagnoses.shared.program import feeds_placeholders
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.steady_events import cost_per_step, steady_events
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.own_python import own_share
from stepwhy.passes.sampled_lines import driver_lines, function_of
from stepwhy.passes.stalls import rows_of_kinds
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="python-overhead",
    family="host",
    name="Python between the framework's calls",
    found="Run less Python in the loop",
    clear="Python of the program takes little of the step",
    needs=(("steps",),),
    refines="wall-device-gap",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
LEAST_SAVED = 0.6  # of the cost; work on whole arrays takes time, too

_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the driving thread runs Python of the program."""
    if feeds_placeholders(facts):
        return RULE.not_applicable("The loop feeds placeholders: see python-preprocessing.")
    lines = driver_lines(facts.sampled)
    if lines is None:
        return _from_trace(facts)
    elements, reading_ns = single_elements(facts)
    if elements:
        function, share = _function(lines)
        # Python makes a tensor of each element, for which there is no operation.
        around_ns = _outside(facts) + facts.breakdown["unexplained"]
        cost = min(around_ns + reading_ns, round(share * facts.wall_ns))
        reads = Evidence("single elements read per step", elements, "count", function)
        return _judge(facts, cost, (reads, *_line_evidence(lines)), _WHOLE_TENSORS)
    cost = min(_outside(facts), round(own_share(lines) * facts.wall_ns))
    function, of_function = _function(lines)
    named = Evidence(
        "samples of the driving thread in one function", of_function, "fraction", function
    )
    return _judge(facts, cost, (named, *_line_evidence(lines)), _ANY)


def _outside(facts: Facts) -> int:
    """Time of the step in Python between the framework's calls, ns.

    What lies between many small operations is left out: it launches them. So are pauses of the
    garbage collector, unless single elements make the garbage.
    """
    loop = eager_loop(facts)
    collecting = steady_events(facts, rows_of_kinds(facts.trace, "gc"))
    left_out = facts.callback_ns + (loop.python_ns if loop else 0)
    if collecting.recur and not single_elements(facts)[0]:
        left_out += cost_per_step(facts, collecting)
    return max(facts.breakdown["python"] - left_out, 0)


def _judge(facts: Facts, cost: int, evidence: tuple[Evidence, ...], fix: Fix) -> Finding:
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction")
    if cost < SHARE * facts.wall_ns:
        clear = RULE.nothing((share,))
        return clear if facts.share("python") < _MUCH else replace(clear, title=_ELSEWHERE)
    gain = saving("remove python", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, (share, *evidence), fix, gain, Edit("python", "gone"))


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
        Evidence("samples of the driving thread at", own[line] / total, "fraction", line)
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
    if facts.mean_ns(groups[0].total_ns) < SHARE * facts.wall_ns:
        # Spread over many functions: what launches work, see launch-bound.
        return replace(RULE.nothing(evidence[:1]), title=_SPREAD)
    return _judge(facts, _outside(facts), evidence, _ANY)


_MUCH = 2 * SHARE
_ELSEWHERE = "Most of the program's Python is in what other checks judge"
_SPREAD = "No single Python function takes much of the step"
_NO_STACKS = (
    "No stack of the training was sampled, and the trace has no Python frames. 'stepwhy run' "
    "samples stacks if the training lasts for some seconds."
)
_ANY = Fix(
    "Start at the first line: do what does not depend on the step once, before the loop; work on "
    "whole arrays, not on single elements; prepare batches ahead, in other processes.",
    "",
    "none",
)
_WHOLE_TENSORS = Fix(
    "Compute on whole tensors, and read the result once. If Python has to see each element, "
    "convert the tensor at once.",
    "pairs = labels * classes + guesses           # no loop over elements\n"
    "counts += torch.bincount(pairs.flatten(), minlength=classes**2)\n"
    "values = guesses.flatten().tolist()          # once, not .item() for each",
    "none",
)
