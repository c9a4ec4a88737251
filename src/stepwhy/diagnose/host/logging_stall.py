"""Writing summaries and logs holds up the training.

## What it means
The loop writes summaries, histograms, images or metrics in every step: for TensorBoard, with
`logging`, or with a tracking service such as MLflow or Weights & Biases. Or it waits after each
record until the disk has stored it (`os.fsync`).

## Why it costs
Values are copied to the host, which waits for the device to compute them. Histograms are computed
from all elements, records are serialised and compressed, and some libraries wait for a disk or a
server.

## How it is measured
The cost is the time in which TensorFlow operations make summaries while nothing computes, and the
share of the stack samples of the training thread that are in a logging library. `stepwhy run` also
logs how long calls of `os.fsync` and `os.fdatasync` take in the main thread outside of checkpoints.
This time counts where nothing computes. Where lines of the program make summaries by operations of
TensorFlow that run one by one, as a histogram does by dozens, the cost is all the time of these
lines. `print` is not visible in a Python stack: its time counts
as Python.

## Fix
Log every hundred steps, and histograms less often. Where every step matters, log an average. Call
`os.fsync` at checkpoints only: a record that was written is safe if the process ends, and only lost
if the machine fails.

## Fix risk
None. The curves have fewer points.

## When it abstains
If no stack was sampled and the trace has no Python frames, unless it shows the operations of
TensorFlow.
"""

from __future__ import annotations

from collections import Counter

from stepwhy.analyse.breakdown.disk_syncs import sync_rows, synced_steps
from stepwhy.analyse.breakdown.logging_time import logging_lines
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.steps.stalls import events_in
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import Group, by_name, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import CALLS_UNSEEN, is_pytorch, shows_calls, uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.settings import CHECKS_OF_NUMERICS
from stepwhy.diagnose.shared.steady_events import SHOWN, SUMMARY, SUMMARY_LINE, by_lines
from stepwhy.trace import NULL, Kind, SampleRole

# Source: `kernel_name` of calls in tensorflow/core/common_runtime/eager and of graph functions.
_FUNCTION_CALL = regex(r"__inference_|__forward_|PartitionedCall")

RULE = Rule(
    __name__,
    name="Waiting for summaries and logs",
    found="Write summaries and logs less often",
    clear="Writing summaries and logs takes little time",
    needs=(("steps",),),
    refines="wall-device-gap",
    least_share=0.05,  # of the step; logging is not part of training
    least_saved=0.9,  # of the cost; the remaining logs still take time
    edit=Edit("storage", "gone"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time in summaries and in libraries that log."""
    rows = facts.slices(Kind.STORAGE, steady=True)
    # Operations that make or write summaries.
    rows = rows[facts.trace.matches(facts.trace.slices.name[rows], SUMMARY.search)]
    is_check = facts.trace.matches(facts.trace.slices.name[rows], CHECKS_OF_NUMERICS.fullmatch)
    rows = rows[~is_check]
    lines, _ = logging_lines(facts.sampled)
    if facts.syncing_ns >= RULE.least_share * facts.wall_ns and facts.syncing_ns > facts.logging_ns:
        return _from_syncs(facts)
    if not len(rows) and not shows_calls(facts):
        return RULE.no_data("stacks", CALLS_UNSEEN)
    summarising = mean_within(facts, time_of(facts, rows) & facts.partition.sets["storage"])
    at_lines = _summary_lines(facts, rows)
    of_lines = sum(line.total_ns for line in at_lines)
    cost = facts.logging_ns + on_scale(facts, summarising)
    if of_lines >= max(cost, RULE.least_share * facts.wall_ns):
        return _from_lines(facts, rows, at_lines)
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing((share,) if len(rows) or lines else ())
    evidence = (share, *_operations(facts, rows), *_lines(facts, lines))
    gain = saving("log less often: remove storage", RULE.least_saved * cost, cost)
    return RULE.finding(cost, evidence, _fix(facts, rows, lines), gain)


def _summary_lines(facts: Facts, rows: AnyRows) -> list[Group]:
    """Lines that make summaries by running operations one by one, and their time per step, ns.

    A line that calls a function of TensorFlow, or fetches a batch, does more than that.
    """
    lines = facts.derived(line_breakdown) if len(rows) else None
    if lines is None or uses_sessions(facts):
        return []
    of_slice, names = facts.derived(slice_lines), facts.trace.slices.name
    written = set(of_slice[rows].tolist()) - {NULL}
    calls = facts.slices(Kind.FRAMEWORK, steady=True)
    calls = calls[facts.trace.matches(names[calls], _FUNCTION_CALL.search)]
    known = {facts.trace.string(key) for key in written - set(of_slice[calls].tolist())}
    return [
        Group(row.line, 1, row.time_ns)
        for row in lines.lines
        if row.kind == "line" and row.line in known and not row.categories.get("input_wait")
    ]


def _from_lines(facts: Facts, rows: AnyRows, lines: list[Group]) -> Finding:
    """Judge the lines that make summaries, whose histograms consist of many operations."""
    cost = sum(line.total_ns for line in lines)
    at = (Evidence(SUMMARY_LINE, one.total_ns, "ns", one.name) for one in lines[:SHOWN])
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction")
    evidence = (share, *at, *_operations(facts, rows))
    gain = saving("log less often", RULE.least_saved * cost, cost)
    edit = Edit("ops", "gone", cost_ns=cost)
    return RULE.finding(cost, evidence, _fix(facts, rows, Counter()), gain, edit)


def _from_syncs(facts: Facts) -> Finding:
    """Judge the waits until records are on disk."""
    trace, cost = facts.trace, facts.syncing_ns
    steps = synced_steps(trace, facts.unprofiled_rows)
    inside = events_in(trace, steps, sync_rows(trace))
    longest = by_lines(trace, inside.rows)[:SHOWN]
    evidence = (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
        Evidence("calls of fsync per step", len(inside.rows) / max(len(steps), 1), "count"),
        *(Evidence("time of fsync per step", ns // len(steps), "ns", line) for line, ns in longest),
    )
    gain = saving("wait less often: remove storage", RULE.least_saved * cost, cost)
    title = "Do not wait for the disk after each record"
    return RULE.finding(cost, evidence, RULE.fix("sync"), gain, title=title)


def _operations(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """How many operations make summaries, and which takes most of the time."""
    if not len(rows):
        return ()
    per_step = len(rows) / max(facts.steady_count, 1)
    longest = by_name(facts, rows)[0].name
    return (Evidence("operations per step that make summaries", per_step, "count", longest),)


def _lines(facts: Facts, lines: Counter[tuple[str, str]]) -> tuple[Evidence, ...]:
    """The lines that log most, with their library."""
    samples = facts.sampled.samples
    total = int(samples.count[samples.role == SampleRole.DRIVER].sum())
    return tuple(
        Evidence(f"samples of the driving thread in {library}", count / total, "fraction", line)
        for (line, library), count in lines.most_common(SHOWN)
    )


def _fix(facts: Facts, rows: AnyRows, lines: Counter[tuple[str, str]]) -> Fix:
    """What to do, by what logs."""
    if len(rows) and (facts.trace.slices.scope[rows] != NULL).any():
        return RULE.fix("tf1")
    libraries = {library for _, library in lines}
    is_board = "tensorboard" in libraries and is_pytorch(facts)
    return RULE.fix("tensorboard" if is_board else "any")
