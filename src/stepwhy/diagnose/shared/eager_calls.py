"""Operations that a program launches one by one from Python, on a CPU."""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.operands import shapes_of
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import mean_within, on_scale, steady, time_of
from stepwhy.diagnose.shared.optimizer_loop import costly_loop_time
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.recording_cost import without_recording
from stepwhy.diagnose.shared.slices import launched_ops, named
from stepwhy.trace import NULL, Kind, Phase, among

SHARE = 0.30  # of the step, in small operations and between them; less is not worth joining them
FEWEST = 100  # operations per step; a small model has some tens
FEWEST_OF_JAX = 30  # which takes longer for each: 20 to 100 us
SMALL_NS = 25_000  # ns; launching an operation from Python takes 5 to 15, recorded a little more
ONE_CALL_NS = 500_000  # ns of Python between two operations; the rest is other work
MANY_ELEMENTS = 100  # reads of single elements per step; a loss and some metrics are a dozen
NEXT_ELEMENT_NS = 500_000  # ns from one read to the next in a loop over elements
CALLS_PER_ELEMENT = 12  # operations from one read to the next; more do something else beside

# Layers whose first argument is the input, by example.
_LAYER = regex(r"aten::(?:linear|conv[123]d)$")
_ALONE = regex(r"(?:1x[\dx]+|\d+),")  # an input of one row, or without a dimension for rows
_JITTED = regex(r"PjitFunction\(.*\)")
_REDUCTION = regex(r"aten::(?:linalg_vector_)?(?:norm|std|var|mean|sum|a?max|a?min|any|all)")
_CHOICE = regex(r"aten::(?:select|unbind|index)")
_ELEMENT = "aten::item"
_ELEMENTS = (
    _ELEMENT,
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::unbind",
    "aten::select",
    "aten::as_strided",
)


class EagerLoop(msgspec.Struct, frozen=True):
    """A step that consists of many small operations.

    Args:
        calls: The operations that the program launches in steady steps, without those of the
            backward pass and of the optimizer; rows of slices, ascending.
        cost_ns: Time per step in small operations and between operations, ns.
        python_ns: The part of it in Python.
    """

    calls: AnyRows
    cost_ns: int
    python_ns: int


def eager_loop(facts: Facts) -> EagerLoop | None:
    """The small operations of the step; None if it has few, or uses an accelerator."""
    return facts.derived(_eager_loop)


def _eager_loop(facts: Facts) -> EagerLoop | None:
    if facts.has_accelerator or element_loop(facts) is not None:
        return None
    every = _launched(facts)
    every = every[facts.phases[every] != Phase.OPTIMIZER]  # `unfused-optimizer` judges those
    calls = every[facts.phases[every] != Phase.BACKWARD]
    fewest = FEWEST_OF_JAX if facts.trace.meta.framework == "jax" else FEWEST
    if len(calls) < fewest * max(facts.steady_count, 1):
        return None
    # The Python and the launches of an optimizer's loop are those of `unfused-optimizer`, too.
    updating = costly_loop_time(facts) if is_pytorch(facts) else Intervals.empty()
    python = (facts.partition.sets["python"] & steady(facts)) - updating
    capped = np.minimum(python.ends - python.starts, ONE_CALL_NS).sum()
    # What is made in a generator of the program is counted as a wait for input.
    waits = ("input_wait",) if makes_batches_of_jax(facts) else ()
    python_ns = on_scale(facts, facts.mean_ns(float(capped)), "python", *waits)
    launches = facts.partition.sets["dispatch"] & updating
    dispatch_ns = facts.breakdown["dispatch"] - on_scale(
        facts, mean_within(facts, launches), "dispatch"
    )
    cost = python_ns + max(dispatch_ns, 0) + in_small(facts, every, SMALL_NS)
    return EagerLoop(calls, cost, python_ns) if cost >= SHARE * facts.wall_ns else None


def makes_batches_of_jax(facts: Facts) -> bool:
    """Whether the loop of a JAX program iterates over a generator, which takes part of the step."""
    prepared = find_preparation(facts.sampled) if facts.trace.meta.framework == "jax" else None
    return prepared is not None and prepared.entry == "generator"


def single_examples(facts: Facts, calls: AnyRows) -> float:
    """How many layers a step calls with a single example; 0 where shapes were not recorded.

    Args:
        facts: Facts of the run.
        calls: Operations of the steady steps; (calls,).
    """
    trace = facts.trace
    layers = calls[trace.matches(trace.slices.name[calls], _LAYER.search)]
    alone = trace.matches(shapes_of(trace)[layers], _ALONE.match)
    return np.count_nonzero(alone) / max(facts.steady_count, 1)


def in_small(facts: Facts, calls: AnyRows, limit_ns: int) -> int:
    """Time of the mean step in small operations, where launching and computing are one record, ns.

    Args:
        facts: Facts of the run.
        calls: Operations; (calls,).
        limit_ns: Median time of those of one name that counts as small.
    """
    if not is_pytorch(facts):
        return 0
    small = time_of(facts, calls[_is_small(facts, calls, limit_ns)])
    computing = small & facts.partition.sets["compute"]
    scaled = on_scale(facts, mean_within(facts, computing), "compute")
    return without_recording(facts, computing, scaled)


def _is_small(facts: Facts, calls: AnyRows, limit_ns: int) -> Mask:
    """Whether the operations of each one's name are small, most of them; (calls,).

    On a busy machine, a thread loses its core for milliseconds in any of them.
    """
    names, place = numbered(facts.trace.slices.name[calls])
    durations = facts.trace.slices.dur_ns[calls]
    typical = [float(np.median(durations[place == name])) for name in range(len(names))]
    is_small: Mask = (np.asarray(typical) <= limit_ns)[place]
    return is_small


def _launched(facts: Facts) -> AnyRows:
    """Operations in steady steps that no other operation has called, ascending."""
    if facts.trace.meta.framework == "jax":
        return _jitted(facts)
    rows = launched_ops(facts)
    return rows[~facts.in_input[rows]]


def _jitted(facts: Facts) -> AnyRows:
    """Calls of jitted functions in steady steps that no other one has called, ascending."""
    slices = facts.trace.slices
    rows = facts.slices(Kind.FRAMEWORK, steady=True)
    rows = rows[facts.trace.matches(slices.name[rows], _JITTED.fullmatch)]
    # Rows are in the order of their starts, so a call within others ends before one of them does.
    ends = facts.trace.ends(rows)
    latest = np.append(np.int64(0), np.maximum.accumulate(ends)[:-1]) if len(rows) else ends
    found: AnyRows = rows[slices.start_ns[rows] >= latest]
    return found


class IndependentCalls(msgspec.Struct, frozen=True):
    """Calls of a jitted function that follow each other and do not need each other.

    Args:
        name: The function.
        line: Where it is called.
        in_a_row: How many at least follow each other.
        launching_ns: Time per step of launching them, and of Python between them, ns.
    """

    name: str
    line: str
    in_a_row: int
    launching_ns: int

    @property
    def cost_ns(self) -> int:
        """Time per step that all calls but one of each row take, ns."""
        return round((1 - 1 / self.in_a_row) * self.launching_ns)


def independent_calls(facts: Facts) -> IndependentCalls | None:
    """The function of which such calls take longest; None if there is none."""
    trace, events = facts.trace, facts.trace.events
    rows = rows_of_kinds(trace, "independent-calls")
    found: dict[tuple[str, str], int] = {}
    for row in rows[events.source[rows] != NULL].tolist():
        key = trace.string(int(events.name[row])), trace.string(int(events.source[row]))
        found[key] = max(found.get(key, 2), int(events.count[row]))
    every = [IndependentCalls(*key, n, _launching_ns(facts, key[0])) for key, n in found.items()]
    return max(every, key=lambda each: each.cost_ns, default=None)


def _launching_ns(facts: Facts, function: str) -> int:
    """Time per step of the calls of a jitted function, and of Python until the next one, ns."""
    calls = named(facts, f"PjitFunction({function})")
    host = facts.partition.sets["dispatch"] | facts.partition.sets["python"]
    between = _until_next(facts, calls) & host & steady(facts)
    return on_scale(facts, mean_within(facts, between), "dispatch", "python")


def _until_next(facts: Facts, calls: AnyRows) -> Intervals:
    """From each call to the next one, but for other work that comes between them."""
    starts, ends = facts.trace.slices.start_ns[calls], facts.trace.ends(calls)
    until = np.minimum(np.append(starts[1:], ends[-1:]), ends + ONE_CALL_NS)
    return Intervals.of(starts, np.maximum(until, ends))


class ElementLoop(msgspec.Struct, frozen=True):
    """A loop over single elements of tensors.

    Args:
        reads: The operations that read an element, in steady steps; rows of slices, ascending.
        calls: All operations of the loop; rows of slices, ascending.
        per_step: How many elements a step reads.
        cost_ns: Time per step in these operations, ns.
        python_ns: Time per step in Python from one read to the next, ns.
        of_tensors: Whether most reads are of whole tensors that an operation reduced to a number.
    """

    reads: AnyRows
    calls: AnyRows
    per_step: int
    cost_ns: int
    python_ns: int
    of_tensors: bool = False


def element_loop(facts: Facts) -> ElementLoop | None:
    """The loop over single elements in the step; None if it has none."""
    return facts.derived(_element_loop)


def _element_loop(facts: Facts) -> ElementLoop | None:
    reads = named(facts, _ELEMENT)
    # Fused optimizers read the step of each parameter.
    reads = reads[~among(facts.phases[reads], (Phase.OPTIMIZER, Phase.BACKWARD))]
    starts = facts.trace.slices.start_ns[reads]
    is_next = np.diff(starts, prepend=starts[:1]) <= NEXT_ELEMENT_NS
    per_step = round(np.count_nonzero(is_next) / max(facts.steady_count, 1))
    if per_step < MANY_ELEMENTS:
        return None
    calls = _between(facts, starts, is_next)
    if len(calls) > CALLS_PER_ELEMENT * len(reads):
        return None
    names = facts.trace.slices.name[calls]
    reduced, chosen = (
        2 * np.count_nonzero(facts.trace.matches(names, kind.fullmatch)) >= len(reads)
        for kind in (_REDUCTION, _CHOICE)
    )
    calls = np.union1d(calls, named(facts, *_ELEMENTS))
    time = time_of(facts, calls)
    scaled = on_scale(facts, mean_within(facts, time), "compute")
    cost = min(without_recording(facts, time, scaled), facts.breakdown["compute"])
    loop = Intervals.of(starts[:-1][is_next[1:]], starts[1:][is_next[1:]])
    python = mean_within(facts, loop & facts.partition.sets["python"])
    python_ns = on_scale(facts, python, "python")
    return ElementLoop(reads, calls, per_step, cost, python_ns, bool(reduced and not chosen))


def _between(facts: Facts, starts: Ints, is_next: Mask) -> AnyRows:
    """Operations that the program launches between two reads that follow each other, ascending.

    Args:
        facts: Facts of the run.
        starts: When each element is read, ns; (reads,).
        is_next: Whether the read before it belongs to the same loop; (reads,).
    """
    rows = launched_ops(facts)
    following = np.searchsorted(starts, facts.trace.slices.start_ns[rows], side="left")
    found: AnyRows = rows[(following > 0) & np.append(is_next, False)[following]]
    return found
