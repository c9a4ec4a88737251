"""Every epoch prepares the same elements again.

## What it means
The input pipeline read its data more than once during the observation and repeated the same work
for each element, while the step waits for it. Or each step computes the same for an example
whenever that comes back, such as a spectrogram that depends on no weight.

## Why it costs
Except for augmentation, the result does not depend on the epoch. Reading, decoding and computing it
again takes as long as the first time.

## How it is measured
A PyTorch DataLoader that is iterated again reads the same data set again. In `tf.data`, a `repeat`
has restarted its input if it has passed on more elements than its input has produced since the last
start; the work before it, up to a `cache`, is repeated. Or the loop has iterated the same data set
again: then all is repeated that comes before the first function that draws random numbers. That
must be most of the pipeline's work; where its stages have ended before TensorFlow's model was read,
the others must explain less than half of the wait.
Work behind a cache, which gets elements from it, is repeated as well.
A cache counts as not filled if the functions before it are called in a later epoch, too: TensorFlow
keeps the elements of a pass only if all of them were read. Then the epoch may also be known by the
steps, which have fetched more than three times as many batches as the current pass has made.
Epochs of Keras's `fit` are known where their first steps are long, as they are if the pipeline
fills a shuffle buffer first: what is the same in each epoch before it is prepared again.
The cost is the time of the step spent waiting for input, without the time in which workers start
again. On a CPU, a pipeline that keeps up takes the cores from the step: the cost is then its work
per batch that is the same in each epoch, divided by the cores. `stepwhy run` notes the line that
makes each stage of `tf.data`.

A `DataLoader` without workers prepares batches in the training loop, so that the lines of the data
set are known. `stepwhy run` looks at the code of `__getitem__` and of what it calls. A function
counts if neither its code nor what its caller runs before it names random numbers: its result for
an element is the same in each epoch. The cost is then the time at the lines of such functions, if
the loader was iterated more than once.

Part of the step itself may also depend on the batch alone, such as a spectrogram or a distance
matrix. A line counts if some of its operations compute from the batch, and none of them reads a
weight, what the step changes, or random numbers. In PyTorch, one step is followed operation by
operation, and lines of functions that name random numbers do not count. In TensorFlow, the graph of
a function or session that computes gradients is followed; what is in loops and branches does not
count. In JAX, an instruction of a jitted function counts if it reads nothing but arguments that
each call copies from NumPy anew, and constants. The cost is the time in which the device computes
for these lines, and the host launches it. What only selects, moves or converts parts of the batch
does not count, and nothing does if the data set or the pipeline draws random numbers.

## Fix
Keep prepared elements: `dataset.cache()` before shuffling and random augmentation, a file of
prepared arrays, or a data set that caches them if they fit into memory. Compute features of the
batch once per example, before the training or in the part of the pipeline that is cached.

## Fix risk
Cached elements take memory or disk space. Random augmentation must come after the cache, or it is
the same in every epoch. Features can be larger than what they are computed from. If no example is
used twice, keeping features gains nothing; computing them ahead, while the device is busy, may.

## When it abstains
When the data was read only once, or the number of epochs is unknown: TensorFlow 1 queues, Keras
epochs, loaders of other libraries. Except for operations of TensorFlow that draw random numbers,
stepwhy cannot see whether a data set returns different elements each time; if so, there is nothing
to cache. Does not apply if the pipeline has a filled cache of all that is the same, or if the
function that takes most of the preparation augments at random, by its name or its code: its results
must be new. Does not apply to a `DataLoader` without workers if its lines or the code of its
functions are unknown: `serial-input` judges that.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.analyse.input.batch_work import find_batch_work
from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.analyse.steps.stalls import epoch_starts
from stepwhy.diagnose.input.shared.batch_features import batch_features
from stepwhy.diagnose.input.shared.loaders import batches_ready
from stepwhy.diagnose.input.shared.long_waits import BEGINS, long_waits
from stepwhy.diagnose.input.shared.repeated_work import (
    Repeated,
    iterated_again,
    restarted,
    work_beside,
)
from stepwhy.diagnose.shared.augmentation import is_new
from stepwhy.diagnose.shared.pipeline_stages import (
    behind_caches,
    cache_lines,
    caches,
    calls,
    fills_again,
    shuffles,
    shuffles_at,
    stage_name,
    stage_rows,
    work_of_stages,
)
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.stable_functions import OF_FUNCTIONS, stable_lines
from stepwhy.diagnose.shared.steady_events import cost_per_step, summary
from stepwhy.trace import NULL, Trace

RULE = Rule(
    __name__,
    name="Preparing the same elements in every epoch",
    found="Cache prepared elements for the next epoch",
    clear="Repeated preprocessing does not delay the step",
    needs=(("steps",),),
    refines="input-bound",
)

SHARE = 0.25  # of the step; below it, another worker or prefetching is simpler than a cache
LEAST_SAVED = 0.5  # of the wait; cached elements still have to be fetched and batched
SHARE_OF_LINES = 0.10  # of the step; below it the gain is less than the variation between steps
MOST_SAVED_OF_LINES = 1.15  # of the time of the lines; they displace other data from the caches
LEAST_SAVED_OF_LINES = 0.7  # of the time of the lines; the kept result still has to be read
# Of what the work takes from the step if it shares the cores evenly; measured in two programs.
SAVED_BESIDE = (0.3, 1.5)
REPEATED = 0.5  # of the pipeline's work; with less, a cache leaves most of it

_FEATURES_OF = {"tensorflow": "tf-features", "jax": "jax-features"}
_SHOWN = 3
_OF_BATCH = "share of the step in lines that compute from the batch alone"
_SERIAL = "The DataLoader has no workers: see serial-input."
_FEATURES = "Compute the features of each example once, not in each step"
_CACHED = "The pipeline has a cache."
_UNFILLED = "Let the cache of the pipeline be filled: no pass reads all elements before it"
_TAKES_CORES = "Cache what is the same in each epoch: preparing it takes the cores from the step"
_TAKEN = "share of the cores' time that it takes"
_MOVED = "Move the cache behind the work that is the same in each epoch"
_CALLS_PYTHON = (
    "The functions of the pipeline call Python: whether they return the same in each epoch is "
    "unknown."
)
_RANDOM_NUMBERS = "All functions of the pipeline draw random numbers: each epoch needs new results."
_NEW_RESULTS = (
    "The function that takes most of the preparation augments at random, by its name or its code, "
    "so that each epoch needs new results."
)


def diagnose(facts: Facts) -> Finding:
    """Judge what is computed again for each element, in the step or while it waits."""
    lines = batch_features(facts)
    cost = sum(line.total_ns for line in lines)
    loading = _of_loading(facts)
    if not cost or cost < max(SHARE_OF_LINES * facts.wall_ns, loading.cost_ns_per_step or 0):
        beside = _beside(facts)
        found_ns = (loading.cost_ns_per_step or 0) if loading.verdict == "found" else 0
        return beside if beside and (beside.cost_ns_per_step or 0) > found_ns else loading
    share = Evidence(_OF_BATCH, cost / max(facts.wall_ns, 1), "fraction", lines[0].name)
    at = (Evidence("time at the line", line.total_ns, "ns", line.name) for line in lines[:_SHOWN])
    gain = saving("compute once per element", LEAST_SAVED_OF_LINES * cost, cost)
    edit = Edit("ops", "gone", cost_ns=cost)
    eager = _FEATURES_OF.get(facts.trace.meta.framework, "pytorch-features")
    fix = RULE.fix("session-features" if uses_sessions(facts) else eager)
    return RULE.finding(cost, (share, *at), fix, gain, edit, title=_FEATURES)


def _beside(facts: Facts) -> Finding | None:
    """The finding about a pipeline that takes the cores from the step; None without one."""
    repeated, cores = work_beside(facts), usable_cores(facts.trace)
    if repeated is None or cores is None or facts.has_accelerator:
        return None
    work_ns, stages = repeated
    cost = round(min(work_ns, facts.wall_ns) / max(cores, 1))
    if cost < SHARE * facts.wall_ns:
        return None
    share = Evidence(_TAKEN, work_ns / (cores * facts.wall_ns), "fraction")
    least, most = (round(part * cost) for part in SAVED_BESIDE)
    gain = saving("cache: free the cores", least, min(most, facts.wall_ns))
    fix = RULE.fix("tf-moved" if caches(facts.trace) else "tf-epochs")
    evidence = (share, *stages, *cache_lines(facts.trace))
    return RULE.finding(cost, evidence, fix, gain, title=_TAKES_CORES)


def _of_loading(facts: Facts) -> Finding:
    """Judge the wait for a pipeline that has read its data more than once."""
    late = epoch_starts(facts.trace, facts.unprofiled_rows)
    if late.recur and (at := _fills_buffer(facts)):
        cost = cost_per_step(facts, late)
        gain = saving("cache: remove input_wait", LEAST_SAVED * cost, cost)
        found = (*summary(late, *BEGINS), *at, *cache_lines(facts.trace))
        name, title = ("tf-moved", _MOVED) if caches(facts.trace) else ("tf-shuffled", "")
        return RULE.finding(cost, found, RULE.fix(name), gain, title=title)
    again = restarted(facts.trace)
    repeated = _loader(facts) or again or iterated_again(facts)
    if repeated is None:
        return RULE.no_data(
            "input-reads", "The trace does not show whether the data was read more than once."
        )
    work = find_batch_work(facts)
    if work is not None and work.source == "DataLoader":
        return _of_functions(facts, repeated)
    if repeated.is_cached:
        return RULE.not_applicable(_CACHED)
    if repeated.is_random:
        return RULE.not_applicable(_RANDOM_NUMBERS)
    if repeated.is_unknown:
        return RULE.incomplete("input-reads", _CALLS_PYTHON)
    ready = batches_ready(facts)
    if ready is not None:
        return RULE.nothing((ready,))
    cost = facts.usual_input_wait_ns
    share = cost / max(facts.wall_ns, 1)
    waits = Evidence("share of the step waiting for input", share, "fraction")
    if cost < SHARE * facts.wall_ns or repeated.share < REPEATED:
        return RULE.nothing((waits, *repeated.evidence[:1]))
    gain = saving("cache: remove input_wait", LEAST_SAVED * repeated.share * cost, cost)
    lines = _lines(facts.trace)
    if lines and is_new(facts, lines[0].where):
        return RULE.not_applicable(_NEW_RESULTS)
    stages = work_of_stages(facts.trace) if again else ()
    evidence = (waits, *repeated.evidence, *stages, *long_waits(facts), *lines)
    # What fills a shuffle buffer runs while few steps wait, and delays no operation of the others.
    edit = None if long_waits(facts) and shuffles(facts.trace) else Edit("input", "gone")
    fix = RULE.fix("tf-data" if again else "tf-epochs")
    fix = fix if facts.trace.meta.framework == "tensorflow" else RULE.fix("pytorch")
    if caches(facts.trace):
        found = (*evidence, *cache_lines(facts.trace))
        name, title = ("tf-unfilled", _UNFILLED) if fills_again(facts) else ("tf-moved", _MOVED)
        return RULE.finding(cost, found, RULE.fix(name), gain, edit, title=title)
    return RULE.finding(cost, evidence, fix, gain, edit)


def _fills_buffer(facts: Facts) -> tuple[Evidence, ...]:
    """What is the same in each epoch, and called for a whole shuffle buffer before its first batch.

    A cache can keep what comes before the first function that draws random numbers.
    """
    trace, rows, random = facts.trace, stage_rows(facts.trace), facts.trace.stages.random
    filled = next((i for i, row in enumerate(rows) if shuffles_at(trace, row)), len(rows))
    changing = max((i for i, row in enumerate(rows) if random[row] == 1), default=-1)
    below = rows[max(filled, changing) + 1 :]
    kept = behind_caches(trace) if caches(trace) else rows
    same = [row for row in below if calls(trace, row) and random[row] == 0 and row in kept]
    name = "called for a whole shuffle buffer before the first batch"
    lines = ((row, int(trace.stages.source[row])) for row in same)
    return tuple(
        Evidence(name, stage_name(trace, row), "", "" if line == NULL else trace.string(line))
        for row, line in lines
    )


def _of_functions(facts: Facts, repeated: Repeated) -> Finding:
    """Judge the functions that return the same in each epoch, in a DataLoader without workers."""
    lines = stable_lines(facts)
    if not lines:
        return RULE.not_applicable(_SERIAL)
    cost = sum(line.total_ns for line in lines)
    share = Evidence(OF_FUNCTIONS, cost / max(facts.wall_ns, 1), "fraction", lines[0].name)
    if cost < SHARE_OF_LINES * facts.wall_ns:
        return RULE.nothing((share,))
    at = (Evidence("time at the line", line.total_ns, "ns", line.name) for line in lines[:_SHOWN])
    evidence = (share, *repeated.evidence, *at)
    most = min(MOST_SAVED_OF_LINES * cost, facts.wall_ns)
    gain = saving("compute once per element", LEAST_SAVED_OF_LINES * cost, most)
    return RULE.finding(cost, evidence, RULE.fix("pytorch"), gain)


def _lines(trace: Trace) -> tuple[Evidence, ...]:
    """The function that takes most of the preparation time, if stacks were sampled."""
    work = find_preparation(trace)
    if work is None:
        return ()
    what = "share of the Python preprocessing in one function"
    return (Evidence(what, round(work.function_share, 3), "fraction", work.line),)


def _loader(facts: Facts) -> Repeated | None:
    """The DataLoader that was restarted most often; None if none was."""
    events = facts.trace.events
    rows = np.flatnonzero(np.isin(events.kind, facts.trace.strings_where(["epoch"])))
    names, counts = np.unique(events.name[rows], return_counts=True)
    if not len(counts) or counts.max() < 2:
        return None
    name = names[counts.argmax()]
    starts = events.start_ns[rows[events.name[rows] == name]]
    found = [
        Evidence("epochs started", int(counts.max()), "count", facts.trace.string(int(name))),
        *_steps_per_epoch(facts.trace, starts),
    ]
    return Repeated(tuple(found))


def _steps_per_epoch(
    trace: Trace, starts_ns: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[Evidence]:
    """Median number of steps per epoch, if steps were observed."""
    if not len(trace.marks):
        return []
    places = np.searchsorted(trace.marks.start_ns, starts_ns)
    return [Evidence("steps per epoch", round(float(np.median(np.diff(places)))), "count")]
