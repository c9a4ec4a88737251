"""The run takes long until its first steady step.

## What it means
Before the first step, a program imports libraries, reads, indexes or prepares data, builds the
model, and compiles it; the first steps compile, allocate memory and choose kernels.

## Why it costs
Nothing is trained meanwhile, on all devices of the job. The time is lost once per run, so it
matters for short and frequent runs: trials of hyperparameters, debugging, restarts after a
preemption.

## How it is measured
From the start of the command to the first steady step, without the usual time of the steps before
it. If the first step takes longer than three seconds to come, stepwhy samples what the main thread
does until then. The compilations before the first steady step are logged. The import of the
framework itself does not count, because no change of the program avoids it, and neither does the
share of time in which the process waits for a core. The finding has no cost per step: its evidence
is the time per run.

## Fix
Depends on what takes the time. Preparation of data: once, with the result in a file. Compilation:
keep what was compiled for the next run, or compile less. Imports: only of what the run uses.

## Fix risk
None, provided that stored results are made again when the data or the code changes.

## When it abstains
If the run was not observed by `stepwhy run`, or if its end was not recorded. `incomplete` if the
run was stopped or failed, because the length of a whole run is then unknown, if no stack was
sampled before the first step, or if the main thread may have waited most of the time for processes
that the program starts, such as the servers of a cluster: what these do is not sampled.
"""

from __future__ import annotations

from stepwhy.analyse.run.startup import StartPlace, StartUp, find_startup
from stepwhy.analyse.steps.sampled_lines import FRAMEWORKS
from stepwhy.base.units import format_ns
from stepwhy.diagnose.shared.augmentation import cheaper_augmentation, is_random
from stepwhy.diagnose.shared.program import is_compiled, is_pytorch
from stepwhy.diagnose.shared.rule import SHARE_OF_RUN, Evidence, Facts, Finding, Fix, Rule

RULE = Rule(
    __name__,
    name="Slow start of the run",
    found="Shorten the start of the run: it comes before the first step of each run",
    clear="The run starts to train soon",
)

SHARE = 0.10  # of the run; below it, a shorter start hardly shortens the run
LONG_NS = 10_000_000_000  # ns that a change could save; less is no long wait
MAIN = 0.5  # of the avoidable time; the fix is for what takes most of it
LEAST_SHOWN = 0.05  # of the avoidable time; less is not worth a change
_SHOWN = 4


def diagnose(facts: Facts) -> Finding:
    """Judge the time until the first steady step."""
    start = find_startup(facts)
    if start is None:
        return RULE.no_data("start-up", "Only 'stepwhy run' logs when the program starts and ends.")
    places = [place for place in start.places or () if _is_avoidable(place)]
    avoidable_ns = max(sum(place.time_ns for place in places), start.compile_ns)
    places = [place for place in places if place.time_ns >= LEAST_SHOWN * avoidable_ns]
    evidence = _evidence(start, places)
    running = 1 - start.waiting
    if start.total_ns * running < LONG_NS or start.share < SHARE:
        return RULE.nothing(evidence[:1])
    if facts.trace.meta.ending:
        return RULE.incomplete("whole-run", _STOPPED.format(format_ns(start.total_ns)), evidence)
    own_ns = max(avoidable_ns - start.children_ns, start.compile_ns)
    if own_ns * running < LONG_NS <= avoidable_ns * running:
        waited = format_ns(start.children_ns)
        text = _CHILDREN.format(format_ns(start.total_ns), waited)
        return RULE.incomplete("stacks", text, evidence)
    if own_ns * running >= LONG_NS:
        return RULE.finding(None, evidence, _fix(facts, start, places, avoidable_ns))
    if start.places is None:
        return RULE.incomplete("stacks", _NOT_SAMPLED.format(format_ns(start.total_ns)), evidence)
    return RULE.nothing(evidence)


def _is_avoidable(place: StartPlace) -> bool:
    """Whether a change of the program may avoid what happens at a place."""
    return bool(place.line) and not (place.imports and place.package in FRAMEWORKS)


def _evidence(start: StartUp, places: list[StartPlace]) -> tuple[Evidence, ...]:
    compiling = Evidence("compiling until then", start.compile_ns, "ns")
    return (
        Evidence("time until the first steady step", start.total_ns, "ns"),
        Evidence(SHARE_OF_RUN, start.share, "fraction"),
        *([compiling] if start.compile_ns else []),
        *(Evidence(_does(place), place.time_ns, "ns", place.line) for place in places[:_SHOWN]),
    )


def _does(place: StartPlace) -> str:
    if place.imports:
        return f"importing {place.package}"
    return (
        f"time in {place.package}, called at" if place.package in FRAMEWORKS else "time at the line"
    )


def _fix(facts: Facts, start: StartUp, places: list[StartPlace], avoidable_ns: int) -> Fix:
    if start.compile_ns >= MAIN * avoidable_ns or not places:
        if facts.trace.meta.framework == "jax":
            return RULE.fix("jax")
        return RULE.fix("inductor" if is_pytorch(facts) and is_compiled(facts) else "compile")
    if sum(place.time_ns for place in places if place.imports) >= MAIN * avoidable_ns:
        return RULE.fix("imports")
    first = next(place for place in places if not place.imports)
    if first.package in FRAMEWORKS:
        return RULE.fix("framework")
    return cheaper_augmentation(first.line) if is_random(first.line) else RULE.fix("prepare")


_STOPPED = (
    "The first steady step came after {}. The run was stopped, or failed, so it is unknown which "
    "share of a whole run that is."
)
_NOT_SAMPLED = (
    "The first steady step came after {}, but no stack was sampled before it, which would show why."
)
_CHILDREN = (
    "The first steady step came after {}. For up to {} of it, the main thread waited while "
    "processes that the program had started were running; what they did was not sampled."
)
