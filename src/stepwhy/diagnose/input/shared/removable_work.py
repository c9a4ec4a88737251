"""Work on each sample that another way to write the line spares, and what that would save."""

from __future__ import annotations

import math

import msgspec

from stepwhy.analyse.breakdown.preparation import MOST, Preparation, find_preparation
from stepwhy.analyse.breakdown.work_kinds import REMOVABLE, WorkKind
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.batch_size import batch_size
from stepwhy.analyse.input.batch_work import BatchWork, starts_processes
from stepwhy.analyse.input.overlap import overlapped_ns, workers_for
from stepwhy.analyse.lines.driver_lines import visits_of
from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.analyse.steps.sampled_lines import FRAMEWORKS, function_of, place_of
from stepwhy.diagnose.input.shared.overlap import gain_of
from stepwhy.diagnose.shared.rule import SPARED
from stepwhy.result import Edit, Evidence
from stepwhy.trace import SampleRole

MANY = 16  # visits of a line per sample; fewer are channels or parts of a sample, and no elements
LEAST_SPARED = 0.5  # of the work; what replaces it takes time, too


class Removable(msgspec.Struct, frozen=True):
    """Work that can mostly be spared.

    Args:
        kind: What it is.
        line: Its hottest line.
        share: Share of the preparation that it is, 0..1.
        call: What the line calls, '' if that is not known.
    """

    kind: WorkKind
    line: str
    share: float
    call: str = ""

    def evidence(self) -> tuple[Evidence, ...]:
        """What most of the preparation is, and where."""
        if not self.kind:
            what = "share of the preparation in one function"
            return (Evidence(what, self.share, "fraction", self.line),)
        return (
            Evidence("most of the preparation is", str(self.kind), "", self.line),
            Evidence("share of the preparation that is this", self.share, "fraction", self.line),
            *((Evidence("what the line calls", self.call, "", self.line),) if self.call else ()),
        )


def removable_work(facts: Facts, work: Preparation) -> Removable | None:
    """What most of the preparation is, if that can be spared; None if not, or unknown."""
    if work.kind in REMOVABLE and not _runs_few_times(facts, work):
        return Removable(work.kind, work.kind_line, work.kind_share, work.kind_call)
    own = work.function_share * (1 - work.package_share)
    samples = batch_size(facts.trace)
    if work.kind or own < MOST or samples is None or work.role is not SampleRole.DRIVER:
        return None
    # A function that a loop elsewhere calls for one element after another.
    visits = visits_of(facts, frozenset({place_of(work.line)})) or 0
    return Removable(WorkKind.ELEMENTS, work.line, own) if visits >= MANY * samples else None


def longest_function(work: Preparation) -> Removable | None:
    """The function that most of the preparation is in, if it does not only read or decode files.

    Nothing shows that it can be spared, as a window that is cut out of a result could be computed
    by itself. None if no function has most of it.
    """
    if work.kind in {WorkKind.DECODE, WorkKind.FILES} or work.function_share < MOST:
        return None
    return Removable(WorkKind.OTHER, work.line, work.function_share)


def _runs_few_times(facts: Facts, work: Preparation) -> bool:
    """Whether the loop at a line has few turns: then what it calls directly takes the time.

    A comprehension counts as one visit of its line, so that its turns are not known.
    """
    if work.kind is not WorkKind.ELEMENTS or work.role is not SampleRole.DRIVER:
        return False
    trace = facts.sampled
    here = trace.matches(trace.samples.line, lambda line: line == work.kind_line)
    if "loop" not in map(trace.string, trace.samples.loop[here].tolist()):
        return False
    if not work.entry and _runs_framework(facts, function_of(work.kind_line)):
        return True  # the loop of the training
    visits = visits_of(facts, frozenset({place_of(work.kind_line)}))
    return visits is not None and visits < MANY * (batch_size(facts.trace) or 1)


def _runs_framework(facts: Facts, function: str) -> bool:
    trace = facts.sampled
    same = trace.matches(trace.samples.line, lambda line: function_of(line) == function)
    inside = trace.matches(trace.samples.package, FRAMEWORKS.__contains__)
    return bool((same & inside).any())


class Alternatives(msgspec.Struct, frozen=True):
    """Predicted savings of the ways to shorten the wait, ns per step.

    Args:
        gone_ns: Without the work.
        workers: How many threads or processes prepare batches beside the step instead; 0 where
            more of them do not help, or nothing tells.
        workers_ns: With them: the middle of the predicted interval, which starts at nothing where
            processes compete with operations for the cores.
    """

    gone_ns: int
    workers: int = 0
    workers_ns: int = 0

    @property
    def prefer_workers(self) -> bool:
        """Whether workers are predicted to save more than to do without the work."""
        return self.workers_ns > self.gone_ns

    def evidence(self, line: str) -> tuple[Evidence, ...]:
        """Each with its saving."""
        half_ns = round(LEAST_SPARED * self.gone_ns)
        without = (
            Evidence(SPARED, self.gone_ns, "ns", line),
            Evidence("predicted saving if it takes half as long", half_ns, "ns", line),
        )
        if not self.workers:
            return without
        beside = f"predicted saving with {self.workers} workers" if self.workers > 1 else _ONE
        return (*without, Evidence(beside, self.workers_ns, "ns"))


_ONE = "predicted saving with one worker"


def of_serial_work(facts: Facts, work: BatchWork, spared: Removable) -> Alternatives:
    """What is predicted where the thread that runs the loop prepares the batches itself."""
    gone_ns = round(spared.share * work.exposed_ns)
    if usable_cores(facts.trace) == 1:
        return Alternatives(gone_ns)
    count = workers_for(facts, work)
    gain = gain_of(facts, work, "prepare batches in parallel")
    beside = Edit("input", "workers", count=count)
    low_ns = 0 if starts_processes(facts, beside) else gain.low_ns
    return Alternatives(gone_ns, count, (low_ns + gain.high_ns) // 2)


def serial_ways(facts: Facts, work: BatchWork) -> tuple[Evidence, ...]:
    """What could be spared of serial work, and what that would save; empty if nothing is known."""
    prepared = find_preparation(facts.sampled)
    spared = removable_work(facts, prepared) if prepared is not None else None
    if spared is None:
        return ()
    return (*spared.evidence(), *of_serial_work(facts, work, spared).evidence(spared.line))


def of_work_beside(
    facts: Facts, work: Preparation, spared: Removable, cost_ns: int, work_ns: int
) -> Alternatives:
    """What is predicted where other threads or processes prepare the batches, too slowly.

    Args:
        facts: Facts of the run.
        work: The preparation.
        spared: What most of it is.
        cost_ns: Time of the step that waits for it.
        work_ns: Time per step of all threads or processes in it.
    """
    wall_ns = facts.wall_ns
    present = max(round(work.producers or 1), 1)
    rest_ns = round((1 - spared.share) * work_ns)
    gone_ns = wall_ns - overlapped_ns(wall_ns, cost_ns, rest_ns, present)
    cores = usable_cores(facts.trace)
    needed = math.ceil(work_ns / max(wall_ns - cost_ns, 1))
    count = min(needed, max((cores or needed) - 1, 1))
    # Threads of one process take turns in Python.
    if work.role is not SampleRole.WORKER or count <= present:
        return Alternatives(gone_ns)
    return Alternatives(gone_ns, count, wall_ns - overlapped_ns(wall_ns, cost_ns, work_ns, count))


TITLES = {
    WorkKind.ELEMENTS: "Prepare batches by operations on arrays, not in a loop over elements",
    WorkKind.SEARCH: "Look elements up in a dictionary: a list is searched for each of them",
    WorkKind.TABLE: "Look samples up in arrays: a data frame takes long for single rows",
    WorkKind.ARCHIVE: "Unpack the archive once: each sample unpacks all of it again",
    WorkKind.PARSE: "Parse the records once, before the training: each epoch parses them again",
    WorkKind.SLICES: "Load the file once, or store it in the order in which it is read",
    WorkKind.CONVERT: "Stack arrays before they become a tensor, which takes lists value by value",
    WorkKind.QUERY: "Read the table into arrays once: each sample asks the database",
    WorkKind.OTHER: "Shorten this function, or keep its results: preparing a batch is mostly that",
}
"""Titles of the finding, by kind of work."""
