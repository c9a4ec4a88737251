"""Operations use fewer threads than there are cores, and the other cores idle.

## What it means
The program computes on the CPU, and each operation may use only some of its cores. The number of
threads was set, for example by `torch.set_num_threads(1)`, by a session's
`intra_op_parallelism_threads`, or by `OMP_NUM_THREADS`, which `torchrun` sets to 1 if it is unset.

## Why it costs
A matrix product or long convolution that is divided between two cores takes little more than half
the time.

## How it is measured
stepwhy records how many threads an operation may use and how many cores the process may use. Linux
counts how long the cores of the machine were busy: those that idle could have worked. The cost is
the share of the idle cores in the time of operations that take at least half a millisecond each;
dividing shorter ones gains little. The low end of the saving counts only products of matrices, and
convolutions of 20 ms or more, and allows for parts of them that one thread executes. Of other
operations, a record does not show what dividing them gains: with a second thread on two cores,
such convolutions took 41 to 44 % less time, but those of 0.5 to 6 ms between 41 % less
and 8 % more. A finding without such operations says so, and is listed last. `stepwhy run` looks for
the setting in the code of the program's modules, and names the lines where it stands; a variable
counts only if the program has set it itself.

## Fix
Use as many threads as there are cores, divided among the processes on the machine.

## Fix risk
Results can differ in the last digits, because sums are divided differently.

## When it abstains
If `stepwhy run` did not observe a program of PyTorch or TensorFlow on Linux, or if an accelerator
computes. `incomplete` if other programs used the cores that the operations leave: more threads
would compete with them.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.cores import busy_cores, job_cores, sibling_processes, usable_cores
from stepwhy.analyse.steps.counters import series
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.settings import setting_lines

RULE = Rule(
    __name__,
    name="Fewer threads than cores",
    found="Let operations use all cores",
    clear="Operations use all cores, or are too short to divide",
    needs=(("steps",),),
    is_deliberate=True,
)

SHARE = 0.15  # of the step; below it the gain is less than the variation between steps
LONG_NS = 500_000  # to wake threads and wait for them takes tens of microseconds
VERY_LONG_NS = 20_000_000  # convolutions that two threads always ran in less time
LEAST_SAVED = 0.4  # of the cost of such operations, parts of which use one thread
IDLE = 0.5  # of the cores without a thread; if they are less idle, the job or others use them
_SETTERS = (
    "set_num_threads",
    "set_intra_op_parallelism_threads",
    "intra_op_parallelism_threads",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
# As PyTorch and TensorFlow name them.
_PRODUCTS = regex(r"\b(?:add|b|badd|s_addm)?mm\b|[Mm]at[Mm]ul|linear|Einsum")
_CONVOLUTIONS = regex(r"[Cc]onv(?!ert)")
_MAYBE = "Let operations use all cores, if a trial shows that it helps"
_OTHERS = "An operation may use {}, but other programs used the rest during this run."


def diagnose(facts: Facts) -> Finding:
    """Judge the number of threads of an operation against the cores that idle."""
    if facts.has_accelerator:
        return RULE.not_applicable("An accelerator computes, not the cores of the CPU.")
    span_ns = facts.observed.steady_span_ns if facts.observed else None
    threads = series(facts.trace, "intra_op_threads").last
    cores, busy = usable_cores(facts.trace), busy_cores(facts.trace, span_ns)
    if threads is None or cores is None or busy is None:
        return RULE.no_data(
            "cores", "The number of threads or cores, or how busy the cores are, is unknown."
        )
    world = max(facts.trace.meta.world_size or 1, 1)
    processes = min(sibling_processes(facts.trace, span_ns), world)
    long_ns, products_ns = _long_ns(facts), _long_ns(facts, products=True)
    evidence = (
        Evidence("threads of an operation", threads, "count"),
        Evidence("cores", cores, "count"),
        Evidence("cores that are busy, on average", round(busy, 1), "count"),
        Evidence("time of the step in operations of 0.5 ms or more", long_ns, "ns"),
    )
    unused = cores - threads * processes
    cost = round(long_ns * unused / cores)
    own = job_cores(facts.trace, span_ns)
    is_used = own is not None and cores - own < IDLE * unused
    if unused <= 0 or is_used or cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence)
    if cores - busy < IDLE * unused:
        allowed = f"{threads} core{'' if threads == 1 else 's'} of {cores}"
        return RULE.incomplete("quiet-machine", _OTHERS.format(allowed), evidence)
    fitting = max(cores // processes, 1)
    edit = Edit("threads", "count", count=fitting)
    lines = setting_lines(facts, *_SETTERS)
    gain = saving("a thread per core", LEAST_SAVED * products_ns * unused / cores, cost)
    fix, is_open = _fix(facts, fitting), not products_ns
    title = _MAYBE if is_open else ""
    return RULE.finding(
        cost, (*evidence, *lines), fix, gain, edit, title=title, is_optional=is_open
    )


def _long_ns(facts: Facts, *, products: bool = False) -> int:
    """Time of the mean step in operations that are long enough to be divided, ns.

    Args:
        facts: Facts of the run.
        products: Whether only products of matrices and very long convolutions count.
    """
    found = [facts.in_steady(activity.rows) for activity in facts.leading]
    rows = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    own, counts = facts.nesting.self_ns(rows), np.full(len(rows), not products)
    if products:
        names = facts.trace.slices.name[rows]
        counts = facts.trace.matches(names, _PRODUCTS.search)
        counts |= facts.trace.matches(names, _CONVOLUTIONS.search) & (own >= VERY_LONG_NS)
    long_ns = on_scale(facts, facts.mean_ns(float(own[counts & (own >= LONG_NS)].sum())), "compute")
    return min(long_ns, facts.breakdown["compute"])


def _fix(facts: Facts, threads: int) -> Fix:
    """The fix by framework, with the number of threads for one process."""
    if facts.trace.meta.framework != "tensorflow":
        fix = RULE.fix("torch")
        return replace(fix, code=fix.code.replace("(2)", f"({threads})"))
    return RULE.fix("session" if uses_sessions(facts) else "tensorflow")
