"""A loop inside the graph handles one row after another, with many small operations.

## What it means
`tf.map_fn`, `tf.while_loop` or `tf.scan` runs a part of the graph once for each row of a batch, so
the step consists of thousands of operations on single rows. Or a loop over time steps runs a layer
in each of them that could run once.

## Why it costs
The executor schedules each operation of each iteration, which takes microseconds, as long as many
of them compute. Small operations use one core and no matrix units. The backward pass keeps the
values of all iterations on stacks, and runs the loop once more.

## How it is measured
Nodes that run many times in one step are in a loop; every other node runs once. The cost is their
share of the time of all operations, applied to the time in which the step computes or schedules.
Loops whose operations take long on average do not count, nor loops other than maps that mostly
compute matrix products: these are recurrent layers, whose iterations depend on each other.

TensorFlow 2 records no nodes. There, a loop shows in how often the executor of a `tf.function`
schedules operations: 256 times or more in a step, and at least three times for each operation that
computes. The cost is then the time in which it schedules. Steps with 16 matrix products or more do
not count: their loop may be a recurrent layer. `stepwhy run` notes the lines that make loops when
TensorFlow traces a function; they are named if they are few. In the loop is the line whose
operation runs most often, 16 times in a step or more, if that is a 128th of what is scheduled. The
loops of `tf.map_fn` count whatever else the step computes, with the time of operations that run 16
times or more at one line, unless these are products: then the step may have a recurrent layer, too.

The graph of a round also shows which products with weights no later round needs, such as a layer
that computes the output of each time step from the state: they could be one product after the loop.
The cost is then the time of what these lines run, and of the sums of their weights' gradients.

In JAX, the compiled programs in the profile show what an iteration of a loop needs from earlier
ones. If it is nothing but counters, keys of random numbers, sums, and the array to which it writes
its rows, as in `lax.map` and a `lax.scan` over rows, the iterations do not need each other. If most
of the loop's time is in instructions of at most 2 µs, which mainly take to be started, the cost is
their share of the loop. Longer ones take as long for all rows at once, or longer, where the results
of all rows do not fit into the caches.

Where there is a state, as in a recurrent layer, the loop stays. But products of matrices that do
not need the state, such as that of the input of each time step, could be one product before the
loop, and those that the state does not need, such as that which makes the output of each time step,
one after it. The cost is then their time, and that of the sums of their weights' gradients. They do
not count if all rows together take more than 8 MiB, which leaves the caches.

In PyTorch, `stepwhy run` follows the values of one step from operation to operation. A layer counts
that runs 16 times or more at one line, with at most 64 rows each time, where no run needs an
earlier one, as where a loop over time steps also makes the output of each. Runs with a backward
pass between them do not count, nor those of which the program reads results, or between which it
brings in new values.

## Fix
Write the computation of one row for all rows at once.

## Fix risk
Intermediate values of all rows exist at the same time, which takes memory.

## When it abstains
If the operations of a step are not recorded with their nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.groups import group_rows, numbered
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import (
    by_name,
    by_string,
    mean_within,
    on_scale,
    time_of,
    times,
)
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.separate_products import separate_products
from stepwhy.diagnose.shared.slices import named, steady_work
from stepwhy.diagnose.shared.work_lines import lines_of, times_at_lines
from stepwhy.trace import NULL, Kind, Phase

RULE = Rule(
    __name__,
    name="Loops of small operations in the graph",
    found="Replace the loop in the graph by operations on the whole batch",
    clear="No loop in the graph runs many small operations",
    needs=(("graph-ops", "host-ops", "programs"), ("steps",)),
    least_share=0.20,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.3,  # of the cost; the same arithmetic remains, in fewer operations
    change="one operation for all rows",
    edit=Edit("ops", "replaced"),
)

ITERATIONS = 16  # of a node per step; unrolled or short loops run fewer
SMALL_NS = 200_000  # mean time of an operation; larger ones hide their scheduling
MOSTLY = 0.5  # of the time of a loop; more of it in matrix products is the work of the layer

SCHEDULED = 256  # per step; graphs of hundreds of operations without a loop take some tens
LEAST_OF_SCHEDULED = 1 / 128  # that one operation of the loop has, of which an iteration has tens
MOST_LOOPS = 3  # that are named; of more, it is not known which one takes the time
PER_OPERATION = 3  # times scheduled for each operation that computes; in a loop, most control it

STARTED_NS = 2_000  # of an instruction of XLA on a CPU; starting it takes a half to one microsecond
LEAST_OF_PRODUCTS = 0.10  # of the step; below it the gain is less than the variation between steps
LEAST_SAVED = 0.3  # of the cost; a large product still has to be computed
_AFTER_TITLE = "Multiply all time steps after the loop: no later iteration needs the product"
_PRODUCT_TITLE = "Multiply all rows at once before or after the loop, not in each iteration"

# Source: tensorflow/core/common_runtime/executor.cc: once for each chain of ready operations.
_SCHEDULES = "ExecutorState::Process"
# Source: TensorFlow, control_flow_ops.py: a loop has a scope of its own, 'map/while' by default.
_LOOP = regex(r"(?:gradients\w*/)*(?P<loop>.*?while(?:_\d+)?)(?:/.*)?")
# The names that `tf.map_fn` and `tf.vectorized_map` give to their loops.
_MAP = regex(r"(?:^|/)(?:map|loop_body)[^/]*/")
# Source: the scopes that `tf.scan` and `tf.nn.dynamic_rnn` open (functional_ops.py, rnn.py).
_SEQUENTIAL = regex(r"(?:^|/)(?:scan|rnn|bidirectional_rnn/[fb]w)(?:_\d+)?/while")
_PRODUCT = regex(r"MatMul|Einsum|Conv\d")
_AFTER = regex(r"after (?P<line>0\.\d+|1\.0+) (?P<loop>0\.\d+|1\.0+)")
_WORK = ("compute", "dispatch")
_SUMS = frozenset({"AddN", "Add", "AddV2"})
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the operations that run many times in a step."""
    if facts.trace.meta.framework == "jax":
        return _of_jax(facts)
    if is_pytorch(facts):
        return separate_products(RULE, facts, RULE.fix("torch"), LEAST_OF_PRODUCTS, LEAST_SAVED)
    rows = steady_work(facts, Kind.KERNEL, Kind.OP)
    rows = rows[facts.trace.slices.scope[rows] != NULL]
    if not len(rows):
        return _by_scheduling(facts)
    looped, iterations = _in_loops(facts, rows)
    duration_ns = facts.trace.slices.dur_ns
    share = float(duration_ns[looped].sum()) / max(float(duration_ns[rows].sum()), 1.0)
    cost = round(share * (facts.breakdown["compute"] + facts.breakdown["dispatch"]))
    loop, line = _loop(facts, looped)
    evidence = (
        Evidence("operations per step in loops", len(looped) / facts.steady_count, "count", loop),
        Evidence("iterations of a loop per step, at most", iterations, "count", line),
        Evidence("share of the time of all operations", share, "fraction"),
        *times(facts, "time of the operation", by_name(facts, looped)[:_SHOWN]),
    )
    is_small = duration_ns[looped].mean() <= SMALL_NS if len(looped) else False
    is_clear = not is_small or _is_recurrent(facts, looped, loop)
    shown = None if len(looped) else 0
    return RULE.judge(facts, cost, evidence, RULE.fix(), shown=shown, unless=is_clear)


def _of_jax(facts: Facts) -> Finding:
    """Judge the loops of compiled programs by whether their iterations need each other."""
    if "programs" not in facts.trace.meta.signals:
        return RULE.no_data("programs", "The compiled programs were not recorded.")
    rows, loops, trips = _looped(facts, independent=True)
    product_rows, _, product_trips = _looped(facts, independent=False)
    cost, of_products = (_time_ns(facts, each) for each in (rows, product_rows))
    if of_products > cost:
        evidence = _jax_evidence(facts, product_rows, product_trips, of_products)
        if of_products < LEAST_OF_PRODUCTS * facts.wall_ns:
            return RULE.nothing(evidence)
        gain = saving("one product outside of the loop", LEAST_SAVED * of_products, of_products)
        fix, edit = RULE.fix("jax-product"), Edit("ops", "replaced")
        return RULE.finding(of_products, evidence, fix, gain, edit, title=_PRODUCT_TITLE)
    inner = rows[~np.isin(facts.trace.slices.name[rows], loops)]
    own_ns = facts.nesting.self_ns(inner)
    is_small = _typical_ns(facts, inner, own_ns) <= STARTED_NS
    share = own_ns[is_small].sum() / max(own_ns.sum(), 1)
    if not len(inner):
        return RULE.nothing()
    evidence = (
        *_jax_evidence(facts, rows, trips, cost),
        Evidence("of their time in operations of 2 µs or less", float(share), "fraction"),
    )
    cost = round(float(share) * cost)
    return RULE.judge(facts, cost, evidence, RULE.fix("jax-rows"), unless=share < MOSTLY)


def _typical_ns(facts: Facts, rows: AnyRows, own_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Median time of the slices with the name of each, without what they call, ns; (rows,)."""
    names, place = numbered(facts.trace.slices.name[rows])
    typical = [float(np.median(own_ns[place == name])) for name in range(len(names))]
    return np.asarray(typical, dtype=np.float64)[place]


def _looped(facts: Facts, *, independent: bool) -> tuple[AnyRows, AnyRows, int]:
    """Slices of the steady steps in loops that could be left out, their loops, and iterations."""
    table = facts.trace.argument_uses
    chosen = (table.trips >= ITERATIONS) & (table.independent == independent)
    chosen &= facts.is_steady[table.slice]
    loops = np.unique(table.loop[chosen])
    return np.sort(table.slice[chosen]), loops, int(table.trips[chosen].max(initial=0))


def _time_ns(facts: Facts, rows: AnyRows) -> int:
    return on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute", "dispatch")


def _jax_evidence(facts: Facts, rows: AnyRows, trips: int, cost: int) -> tuple[Evidence, ...]:
    if not len(rows):
        return ()
    return (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
        Evidence("iterations of a loop per step, at most", trips, "count"),
        Evidence("operations per step in loops", len(rows) / facts.steady_count, "count"),
        *times_at_lines(facts, rows),
    )


def _by_scheduling(facts: Facts) -> Finding:
    """Judge a function of TensorFlow 2 by how often its executor schedules operations."""
    if facts.trace.meta.framework not in {"tensorflow", ""}:
        return RULE.not_applicable("The run uses neither TensorFlow nor JAX.")
    scheduled = len(named(facts, _SCHEDULES)) / max(facts.steady_count, 1)
    kernels = facts.slices(Kind.KERNEL, steady=True)
    after = _after_loop(facts, kernels)
    if after is not None:
        return after
    products = facts.trace.matches(facts.trace.slices.name[kernels], _PRODUCT.search).sum()
    computing = len(kernels) / max(facts.steady_count, 1)
    if not scheduled:
        return RULE.no_data("graph-ops", "No operation is recorded with its node.")
    often = Evidence("times that operations are scheduled per step", scheduled, "count")
    share = Evidence("share of the step in that", facts.share("dispatch"), "fraction")
    is_loop = scheduled >= max(SCHEDULED, PER_OPERATION * computing)
    looped = _repeated(facts, kernels)
    repeats_products = facts.trace.matches(facts.trace.slices.name[looped], _PRODUCT.search).any()
    # A map beside a recurrent layer: which of the two is scheduled so often is not known.
    maps = _has_map(facts) and not repeats_products
    is_recurrent = products >= ITERATIONS * facts.steady_count and not maps
    evidence = (
        often,
        share,
        Evidence("operations that compute per step", computing, "count"),
        *_loop_lines(facts),
        *_repeated_at(facts, kernels, scheduled),
    )
    cost = facts.breakdown["dispatch"]
    if maps:
        cost += on_scale(facts, mean_within(facts, time_of(facts, looped)), "compute")
    return RULE.judge(
        facts, cost, evidence, RULE.fix(), shown=1, unless=not is_loop or is_recurrent
    )


def _after_loop(facts: Facts, kernels: AnyRows) -> Finding | None:
    """Judge products in loops that no later iteration needs; None if they take little time.

    Args:
        facts: Facts of a run of TensorFlow 2.
        kernels: Operations of the steady steps, rows of slices; (kernels,).
    """
    trace, events = facts.trace, facts.trace.events
    loops = rows_of_kinds(trace, "graph-loop").tolist()
    matches = {row: _AFTER.fullmatch(trace.string(int(events.reason[row]))) for row in loops}
    shares = {int(events.source[row]): found for row, found in matches.items() if found}
    at_lines = kernels[np.isin(lines_of(facts, kernels), list(shares))] if shares else kernels[:0]
    products = trace.matches(trace.slices.name[at_lines], _PRODUCT.search).sum()
    lines = facts.derived(line_breakdown)
    if products < ITERATIONS * max(facts.steady_count, 1) or lines is None:
        return None
    known = {trace.string(key): float(found["line"]) for key, found in shares.items()}
    rows = [row for row in lines.lines if row.line in known]
    made_at = {trace.string(int(events.source[row])) for row in loops} - known.keys()
    added_ns = sum(
        one.time_ns
        for row in lines.lines
        for one in row.operations
        if row.line in made_at and one.name in _SUMS and one.phase == "backward"
    )
    # A line may also run products that the next iteration needs.
    at_ns = [
        round(known[row.line] * sum(row.categories.get(each, 0) for each in _WORK)) for row in rows
    ]
    cost = sum(at_ns) + round(max(float(found["loop"]) for found in shares.values()) * added_ns)
    if cost < LEAST_OF_PRODUCTS * facts.wall_ns:
        return None
    evidence = (
        Evidence("share of the step", cost / facts.wall_ns, "fraction"),
        *(
            Evidence("time at the line", time_ns, "ns", row.line)
            for time_ns, row in zip(at_ns, rows, strict=True)
        ),
        Evidence("products per step at these lines", int(products) / facts.steady_count, "count"),
        Evidence("time to add up gradients in the loop", added_ns, "ns"),
        *_loop_lines(facts),
    )
    gain = saving("one product after the loop", LEAST_SAVED * cost, cost)
    fix, edit = RULE.fix("after"), Edit("ops", "replaced")
    return RULE.finding(cost, evidence, fix, gain, edit, title=_AFTER_TITLE)


def _has_map(facts: Facts) -> bool:
    """Whether a traced function has a loop over rows that do not need each other."""
    rows = rows_of_kinds(facts.trace, "graph-loop")
    return bool(np.isin(facts.trace.events.reason[rows], facts.trace.strings_where({"map"})).any())


def _repeated(facts: Facts, kernels: AnyRows) -> AnyRows:
    """Those of the operations that run many times per step at one line, without the optimizer's."""
    kernels = kernels[facts.phases[kernels] != Phase.OPTIMIZER]
    lines = facts.derived(slice_lines)[kernels]
    _, group = group_rows(lines, facts.trace.slices.name[kernels])
    often = np.bincount(group) >= ITERATIONS * max(facts.steady_count, 1)
    found: AnyRows = kernels[often[group] & (lines != NULL)]
    return found


def _loop_lines(facts: Facts) -> tuple[Evidence, ...]:
    """The lines that make loops in traced functions; () if they are many."""
    events, text = facts.trace.events, facts.trace.string
    rows = rows_of_kinds(facts.trace, "graph-loop").tolist()
    rows = [row for row in rows if not _AFTER.fullmatch(text(int(events.reason[row])))]
    lines = {text(int(events.source[row])): text(int(events.name[row])) for row in rows}
    if len(lines) > MOST_LOOPS:
        return ()
    return tuple(Evidence("loop in the function", name, "", at) for at, name in lines.items())


def _repeated_at(facts: Facts, kernels: AnyRows, scheduled: float) -> tuple[Evidence, ...]:
    """The line whose operation runs most often in a step; () if it may be in no loop.

    Those of optimizers run as often as there are variables, and do not count. Those of short loops
    are not recorded.

    Args:
        facts: Facts of a run of TensorFlow 2.
        kernels: Operations of the steady steps, rows of slices; (kernels,).
        scheduled: How often operations are scheduled per step.
    """
    kernels = kernels[facts.phases[kernels] != Phase.OPTIMIZER]
    lines = facts.derived(slice_lines)[kernels]
    known = lines != NULL
    pairs = np.stack([lines[known], facts.trace.slices.name[kernels][known]], axis=1)
    if not len(pairs):
        return ()
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    per_step = float(counts.max()) / max(facts.steady_count, 1)
    if per_step < max(ITERATIONS, LEAST_OF_SCHEDULED * scheduled):
        return ()
    line, name = (facts.trace.string(int(key)) for key in found[counts.argmax()])
    return (Evidence(f"times that {name} runs per step at one line", per_step, "count", line),)


def _is_recurrent(facts: Facts, looped: AnyRows, loop: str) -> bool:
    """Whether iterations depend on each other: a scan, or mostly matrix products, and no map."""
    if _MAP.search(loop):
        return False
    if _SEQUENTIAL.search(loop):
        return True
    names = facts.trace.slices.name[looped]
    durations = facts.trace.slices.dur_ns[looped]
    products = durations[facts.trace.matches(names, _PRODUCT.search)]
    return bool(products.sum() >= MOSTLY * durations.sum())


def _in_loops(facts: Facts, rows: AnyRows) -> tuple[AnyRows, float]:
    """Those of the operations whose node runs many times per step, and how often at most."""
    _, node = group_rows(facts.trace.slices.scope[rows])
    runs = np.bincount(node) / max(facts.steady_count, 1)
    looped: AnyRows = rows[runs[node] >= ITERATIONS]
    return looped, float(runs.max(initial=0.0))


def _loop(facts: Facts, looped: AnyRows) -> tuple[str, str]:
    """Scope of the loop that takes longest, and the line that made it; '' if unknown."""
    trace = facts.trace
    scopes: NDArray[np.int32] = trace.slices.scope[looped]
    loops: dict[str, int] = {}
    for group in by_string(facts, scopes, trace.slices.dur_ns[looped]):
        match = _LOOP.fullmatch(group.name)
        if match:
            loops[match["loop"]] = loops.get(match["loop"], 0) + group.total_ns
    if not loops:
        return "", ""
    loop = max(loops, key=lambda name: loops[name])
    inside = trace.matches(trace.nodes.name, lambda name: name.startswith(f"{loop}/"))
    lines = trace.nodes.source[inside]
    known = lines[lines != NULL]
    return loop, trace.string(int(known[0])) if len(known) else ""
