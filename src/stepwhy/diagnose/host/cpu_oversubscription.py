"""The program's own threads outnumber the cores.

## What it means
PyTorch divides an operation among more threads than there are cores: `torch.set_num_threads` or
`OMP_NUM_THREADS` was chosen for another machine, or each of several processes of the job uses all
cores.

## Why it costs
An operation ends when its slowest thread does. With four threads per core, each thread runs a
quarter of the time, and those that are done keep their core busy while they wait for the others.

## How it is measured
stepwhy records how many threads an operation may use, and how many cores the process may use. Linux
counts how long threads ran, and how long they were ready to run without a core: together, these
give the mean number of threads that want to run. Other programs cannot raise it: they only make
each thread wait longer. The diagnosis is made if the threads of all processes outnumber the cores,
and at least 1.5 threads per core want to run. The cost is the share of the computing time that
these threads spend waiting: 1 - cores / threads. The low end of the saving allows for operations
that use a single thread.

## Fix
Use as many threads as there are cores, divided among the processes on the machine.

## Fix risk
Results can differ in the last digits, because sums are divided differently.

## When it abstains
If `stepwhy run` did not observe a PyTorch program on Linux. TensorFlow and JAX are not judged:
their threads sleep while they wait, and lose little.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.analyse.steps.cores import (
    OVERSUBSCRIBED,
    runnable_threads,
    sibling_processes,
    usable_cores,
)
from stepwhy.analyse.steps.counters import series
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule

RULE = Rule(
    __name__,
    name="More threads than cores",
    found="Use no more threads than there are cores",
    clear="The program does not use more threads than there are cores",
    needs=(("steps",),),
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.4,  # of the cost; some operations use one thread
    change="as many threads as cores",
)


def diagnose(facts: Facts) -> Finding:
    """Judge the number of threads that want to run against the cores."""
    threads = series(facts.trace, "intra_op_threads").last if is_pytorch(facts) else None
    cores = usable_cores(facts.trace)
    span_ns = facts.observed.steady_span_ns if facts.observed else None
    runnable = runnable_threads(facts.trace, span_ns)
    if threads is None or cores is None or runnable is None:
        return RULE.no_data(
            "cores", "The number of threads or cores, or the wait for cores, is unknown."
        )
    world = max(facts.trace.meta.world_size or 1, 1)
    processes = min(sibling_processes(facts.trace, span_ns), world)
    wanted = runnable * processes
    evidence = (
        Evidence("threads that want to run, on average", round(wanted, 1), "count"),
        Evidence("cores", cores, "count"),
        Evidence("threads per operation (torch.get_num_threads())", threads, "count"),
        Evidence("processes of the job", processes, "count"),
    )
    waiting = 1 - cores / max(min(wanted, threads * processes), cores)
    cost = round(waiting * facts.breakdown["compute"])
    is_too_many = threads * processes > cores and wanted >= OVERSUBSCRIBED * cores
    fitting = max(cores // processes, 1)
    # With the number of threads for one process.
    fix = RULE.fix("threads")
    fix = replace(fix, code=fix.code.replace("(2)", f"({fitting})"))
    edit = Edit("threads", "count", count=fitting)
    return RULE.judge(facts, cost, evidence, fix, unless=not is_too_many, edit=edit)
