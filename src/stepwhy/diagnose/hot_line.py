"""One line of the program takes much of the step, and no other diagnosis explains the step.

## What it means
No known problem explains most of the step, but a single line of the program takes a quarter of it
or more, and mostly does not run layers of the model: a loss that compares all pairs of a batch, a
conversion, a search, a wait.

## Why it costs
Whatever the line does, the step takes as much longer. Whether the step needs it, a record cannot
show: this is where to look, not a proven fault.

## How it is measured
By the breakdown by line: kernels and the backward pass count for the line that ran the forward
operation, and a wait for the line that waits. Time in products of matrices, convolutions,
attention, normalisation, embeddings and other layers, and that of optimizers, does not count as the
line's own, since a network has to compute. Neither do copies that JAX's compiler adds. What a fused
instruction computes tells the primitive that it was compiled from.

The finding is silent where another one costs half as much as the step or the line. Otherwise it
has a cost, by which it is ranked, if three things hold: the record shows that the line does more
than it has to, what other findings cost on this line is less than `SMALL` of the step, and none
that is elsewhere costs more than half of what remains of the line, which is what it should gain at
least. Else it comes last, without a cost and a gain, as what the step consists of. A finding lies
elsewhere only if its evidence shows that: other lines, operations that this line does not run, or a
category of the breakdown in which this line is not. So a known problem of the line itself always
comes first.

In PyTorch, a line that computes a whole Jacobian or Hessian, by the names of the functions that it
calls in stack samples, counts with its layers, which run once for each output, and does more than a
product with the matrix needs. A line that declares a metric of Keras, which `fit` updates in each
step, does more than training needs. Any other does more than it has to if it is a loop of a program
that runs its operations one by one, runs them once per sample, has arguments that grow from step to
step, or compares all pairs: two arguments are each repeated for the other. Shapes of arguments show
that, the instructions of compiled programs, or in a graph the size of a result that is several
times that of either argument.
A loop that is compiled is none of these, since its rounds need each other, nor is a line that makes
many operations of a graph, which may be those of several layers, nor is Python, which the step may
need: `python-overhead` judges that. A line that mostly waits for something else gains nothing by
being shorter.

The evidence has what the record shows: passes, waits, operations with their runs, bytes and shapes;
whether an operation runs once per sample, and whether its arguments grow from step to step. The
saving ranges from a line that is half as long to one that is gone. On a CPU it is a prediction with
its error, on an accelerator a bound. Python of up to 30 µs for each operation launches that.

## Fix
Read the line. Compute what does not change once, before the loop; replace comparisons of all pairs
by a product of matrices; take less data; or move the work off the training thread.

## Fix risk
It depends on what the line does. If results change, compare a few losses.

## When it abstains
If the record shows no steps, names no lines, or none for most of the step, or does not tell which
operations a line runs, or if most of them are copies that JAX's compiler added. Stack samples alone
show only where the host is, so that computation cannot be judged by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, zip_longest
from operator import itemgetter

from msgspec.structs import replace

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.slice_modules import instruction_scopes
from stepwhy.analyse.steps.sampled_lines import place_of
from stepwhy.base.columns.groups import distinct
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.line_costs import may_be_of
from stepwhy.diagnose.shared.line_evidence import (
    GROWING,
    PAIRS,
    PER_SAMPLE,
    SHAPES,
    WAITS,
    line_evidence,
)
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Facts, Finding, Rule, saving
from stepwhy.result import LineBreakdown, LineOperation, LineTime

RULE = Rule(
    __name__,
    name="Where in the program the time goes",
    found="Look at this line: it takes much of the step, and no known problem explains it",
    clear="The longest line runs layers of the model, or takes little of the step",
    needs=(("steps",),),
)

SHARE = 0.25  # of the step, beside layers; half of less would save too little to look for
EXPLAINED = 0.5  # of the step or the line; a finding that explains so much is the better answer
SMALL = 0.1  # of the step; findings on the line that cost less together leave the question open
LEAST_GAINED = 0.5  # of the line's own time: a line that is read can mostly be halved
UPDATES = 0.1  # of the operations of a line, which updates of variables take in an optimizer
MOST = 0.5  # of a time; what is known of less says little about it

# They say of which steps the times are, and not what a step consists of.
_OF_MEASUREMENT = frozenset(
    {"warmup-included", "slow-startup", "noisy-steps", "profiler-perturbation", "wall-device-gap"}
)

# Operations that layers of a network consist of, as PyTorch, TensorFlow and XLA name them.
_LAYERS = regex(
    r"conv(?!ert)|mm(?:backward|\b|_)|matmul|linear|einsum|attention|attn|gemm|dot|lstm|gru|rnn"
    r"|norm(?!al)|softmax|cross_entropy|nll_loss|embedding|pool|adam|sgd|momentum"
    r"|relu|threshold|gelu|silu|selu|sigmoid|tanh|softplus|dropout|(?:mse|l1|huber)_loss|kl_div"
)
# Norms and decompositions of matrices, such as singular values: no layer consists of them.
_OF_ALGEBRA = regex(r"linalg|svd|eig|cholesky|triangular|householder|qr\b|geqrf|getrf|syev|gesdd")
# The gradient of a bias is a sum over the batch.
_OF_BIASES = frozenset({"aten::sum", "Sum", "BiasAddGrad"})
_PRODUCTS = regex(r"linear|mm\b|conv\w*|MatMul")
_JACOBIAN = regex(r"\b(?:jacrev|jacfwd|jacobian|batch_jacobian|hessian)\b")
_SHAPE = regex(r"\d+(x\d+)*")
_MANY_RUNS = 16  # per step; a model chooses a few times, a loop over samples more often
LAUNCH_NS = (
    30_000  # ns of Python to run one operation of a layer; modules that call modules take so
)
_UPDATE = regex(r"Assign\w*VariableOp|Resource\w*Apply\w+")


def diagnose(facts: Facts) -> Finding:
    """Judge the longest line, whatever other diagnoses find."""
    lines = facts.derived(line_breakdown)
    # In a slice of a run, waits may be for work that is not in it.
    if facts.steps.source == "whole-trace" and "whole-step" not in facts.trace.meta.signals:
        return RULE.incomplete("steps", "The trace does not show whole steps.")
    if lines is None:
        return RULE.no_data("program-lines", "The trace names no lines of the program.")
    unknown_ns = sum(row.time_ns for row in lines.lines if row.kind == "uncredited")
    if unknown_ns > MOST * lines.wall_ns:
        return RULE.incomplete("program-lines", "For most of the step, no line is known.")
    longest = [row for row in lines.lines if row.kind == "line" and row.time_ns >= _least(lines)]
    judged = [(row, _own_ns(facts, row, lines)) for row in longest]
    least = _least(lines)
    hot = max(
        ((row, ns) for row, ns in judged if ns >= max(least, MOST * row.time_ns)),
        key=itemgetter(1),
        default=None,
    )
    if hot is not None:
        return RULE.finding(None, tuple(line_evidence(facts, hot[0], lines)), RULE.fix("read"))
    if any(_added_ns(facts, row) > MOST * row.time_ns for row in longest):
        return RULE.incomplete(
            "program-lines", "The longest line mostly runs copies that JAX's compiler added."
        )
    if any(_is_untold(row, lines) for row in longest):
        return RULE.incomplete(
            "program-lines", "The trace does not tell which operations the longest line runs."
        )
    shown = next((row for row in lines.lines if row.kind == "line"), None)
    return RULE.nothing(() if shown is None else tuple(line_evidence(facts, shown, lines)))


def _least(lines: LineBreakdown) -> float:
    return SHARE * lines.wall_ns


def _own_ns(facts: Facts, row: LineTime, lines: LineBreakdown) -> int:
    """Time of a line that is neither of layers nor of an optimizer, as far as it is known; ns."""
    work_ns = _work_ns(row)
    if _is_jacobian(facts, row):
        return row.time_ns  # whose layers run once for each output
    if _is_untold(row, lines):
        return row.time_ns - work_ns
    known_ns = sum(one.time_ns for one in row.operations)
    layers_ns = sum(one.time_ns for one in row.operations if _is_needed(facts, row, one))
    updates_ns = sum(one.time_ns for one in row.operations if _UPDATE.match(one.name))
    if updates_ns >= UPDATES * known_ns:
        layers_ns = known_ns  # an optimizer that consists of small operations
    if not known_ns:
        return row.time_ns
    # Operations that are not named have the same share of layers.
    work_ns += _launching_ns(row)
    return row.time_ns - round(work_ns * layers_ns / known_ns)


def _is_jacobian(facts: Facts, row: LineTime) -> bool:
    """Whether a line of PyTorch computes whole matrices of derivatives, by what it calls."""
    if not is_pytorch(facts):
        return False
    trace, samples = facts.sampled, facts.sampled.samples
    calls = trace.matches(samples.names, _JACOBIAN.search)
    lines = {place_of(trace.string(line)) for line in distinct(samples.line[calls]).tolist()}
    return place_of(row.line) in lines


def _launching_ns(row: LineTime) -> int:
    """The part of a line's Python that launches its operations, such as calls of modules, ns."""
    runs = sum(one.count for one in row.operations if one.phase != "backward")
    return min(row.categories.get("python", 0), round(LAUNCH_NS * runs))


def _added_ns(facts: Facts, row: LineTime) -> int:
    """Time of the known instructions of a line that were compiled from no operation, ns."""
    scopes = facts.derived(instruction_scopes)
    named = (one for one in row.operations if scopes and (one.name, row.line) not in scopes)
    return sum(one.time_ns for one in named if not _LAYERS.search(one.name.lower()))


def _is_needed(facts: Facts, row: LineTime, one: LineOperation) -> bool:
    """Whether an operation is part of a layer or an optimizer, or made by a compiler."""
    if one.phase == "optimizer":
        return True
    if _OF_ALGEBRA.search(one.name.lower()):
        return False
    if _LAYERS.search(one.name.lower()):
        return True
    runs_products = any(_PRODUCTS.search(each.name) for each in row.operations)
    if one.phase == "backward" and one.name in _OF_BIASES and runs_products:
        return True
    scopes = facts.derived(instruction_scopes)
    # The compiler adds copies of its own, of which no line is the cause.
    scope = scopes.get((one.name, row.line), "")
    return bool(scopes) and (not scope or bool(_LAYERS.search(scope.rpartition("/")[2])))


def _is_untold(row: LineTime, lines: LineBreakdown) -> bool:
    """Whether it is not known which operations make most of the work of a line."""
    known_ns = sum(one.time_ns for one in row.operations)
    is_sampled = lines.source == "samples"
    return is_sampled or known_ns < MOST * _work_ns(row)


def _work_ns(row: LineTime) -> int:
    """Time of a line in which operations run or are launched, ns."""
    return row.categories.get("compute", 0) + row.categories.get("dispatch", 0)


def unless_explained(
    facts: Facts, findings: Sequence[Finding], families: Mapping[str, str] | None = None
) -> list[Finding]:
    """The findings; that of the longest line only if no other explains the step or the line.

    Args:
        facts: Facts of the run.
        findings: All findings, with their causes.
        families: Family of each diagnosis by its id; None if not known.
    """
    known = families or {}
    return [
        _beside(facts, f, findings, known) if f.id == RULE.id and f.verdict == "found" else f
        for f in findings
    ]


def _beside(
    facts: Facts, hot: Finding, findings: Sequence[Finding], families: Mapping[str, str]
) -> Finding:
    others = [
        f
        for f in findings
        if f.verdict == "found" and f.id != RULE.id and not f.explained_by
        # Neither says what a step consists of.
        if f.id not in _OF_MEASUREMENT and families.get(f.id) != "memory"
    ]
    lines = facts.derived(line_breakdown)
    rows = () if lines is None else lines.lines
    row = next((row for row in rows if row.line == hot.evidence[0].where), None)
    time_ns = round(float(hot.evidence[0].value) * facts.wall_ns)
    here = [f for f in others if row is None or lines is None or may_be_of(f, row, lines)]
    elsewhere = max((_cost_ns(f) for f in others if f not in here), default=0)
    if max(map(_cost_ns, others), default=0) >= EXPLAINED * min(facts.wall_ns, time_ns):
        return RULE.not_applicable("Another finding explains most of the step, or of the line.")
    explained_ns = sum(map(_cost_ns, here))
    is_open = explained_ns < SMALL * facts.wall_ns and all(f.cost_ns_per_step for f in here)
    if not is_open or elsewhere > LEAST_GAINED * (time_ns - explained_ns):
        return RULE.finding(None, hot.evidence, RULE.fix("read"), title=_BESIDE)
    return _leading(facts, hot, row, time_ns)


def _cost_ns(finding: Finding) -> int:
    return finding.cost_ns_per_step or 0


def _leading(facts: Facts, hot: Finding, row: LineTime | None, time_ns: int) -> Finding:
    """The finding, with its cost and gain if the line does more than it has to."""
    waits = 0 if row is None else sum(row.categories.get(name, 0) for name in WAITS)
    own_ns = time_ns - waits
    if own_ns < MOST * time_ns:
        return RULE.finding(None, hot.evidence, RULE.fix("wait"), title=_WAITS)
    is_metric = row is not None and row.line.endswith(_METRIC)
    is_jacobian = row is not None and _is_jacobian(facts, row)
    if row is None or not (is_metric or is_jacobian or _may_be_less(facts, hot, row)):
        return RULE.finding(None, hot.evidence, RULE.fix("own"), title=_OWN)
    gain = saving("the line half as long, or gone", LEAST_GAINED * own_ns, own_ns)
    # A replay removes operations by name, and so those of other lines as well.
    in_python = row.categories.get("python", 0) > _work_ns(row)
    change = Edit("python" if in_python else "ops", "gone", cost_ns=own_ns)
    edit = None if facts.has_accelerator else change
    if is_metric:
        fix = RULE.fix("metric")
        return RULE.finding(time_ns, hot.evidence, fix, gain, edit, title=_OF_METRIC)
    if is_jacobian:
        bound = replace(gain, note=_NOTE)
        return RULE.finding(
            time_ns, hot.evidence, RULE.fix("jacobian"), bound, edit, title=_OF_JACOBIAN
        )
    return RULE.finding(time_ns, hot.evidence, RULE.fix("read"), replace(gain, note=_NOTE), edit)


def _may_be_less(facts: Facts, hot: Finding, row: LineTime) -> bool:
    """Whether anything shows that a line does more than to compute once with what is there."""
    # The rounds of a compiled loop need each other, and a line that makes many operations of a
    # graph makes a layer in each.
    in_graph = facts.derived(instruction_scopes) or facts.trace.meta.framework == "tensorflow"
    if _is_loop(row) and not in_graph:
        return True
    if any(one.what.startswith((PER_SAMPLE, GROWING, PAIRS)) for one in hot.evidence):
        return True
    shapes = [str(one.value) for one in hot.evidence if one.what == SHAPES]
    return any(map(_is_of_pairs, shapes))


def _is_loop(row: LineTime) -> bool:
    many = (one.time_ns for one in row.operations if one.count >= _MANY_RUNS)
    return sum(many) > SMALL * row.time_ns


def _is_of_pairs(shapes: str) -> bool:
    """Whether two arguments are each repeated for the other, as '64x1x3, 1x64x3' are.

    Lists of tensors, such as '8x3+2', are no operands of one computation.
    """
    known = filter(_SHAPE.fullmatch, shapes.split(", "))
    sizes = [tuple(map(int, one.split("x")))[::-1] for one in known]
    for one, other in combinations(sizes, 2):
        pairs = list(zip_longest(one, other, fillvalue=1))
        if any(a == 1 < b for a, b in pairs) and any(b == 1 < a for a, b in pairs):
            return True
    return False


_NOTE = "A bound, not a prediction: from a line half as long to one that is gone. It may be needed."
_METRIC = ".update_state"  # the name of the function, at lines that declare a metric of Keras
_OF_METRIC = "Compute this metric less often, or more cheaply: each training step updates it"
_OF_JACOBIAN = "Compute products with the Jacobian or Hessian, if the step needs no more than these"
_OWN = "Much of the step is this line, and nothing shows that it can be less"
_WAITS = "Much of the step is this line, which waits for something else"
_BESIDE = "Much of the step is this line, which other findings may explain"
