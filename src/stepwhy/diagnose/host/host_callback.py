"""Operations of the step call back into Python, which runs while nothing computes.

## What it means
The graph or the compiled step contains a Python function: `tf.py_function`, `tf.numpy_function` or
`tf.py_func` in TensorFlow; `jax.pure_callback`, `io_callback`, `jax.debug.callback` or
`jax.debug.print` in JAX; or a `torch.autograd.Function` that computes with NumPy.

## Why it costs
Operations that need its result wait for it. It runs on one core, under the interpreter's lock, and
its values are copied to the host and back. A compiler cannot fuse operations across it. On an
accelerator, the thread that launches the work waits for the values and runs the callback, so that
nothing is launched meanwhile.

## How it is measured
The cost is the time of the mean step in which a callback runs and nothing computes. On an
accelerator, the copies in a callback count as well. On a CPU, a callback beside operations keeps
one core from them, and maybe the thread that they wait for: of that time, the share of one core
counts, and the saving may be all of it. Stack samples name the lines. In PyTorch, the time that an
autograd function spends outside of PyTorch's operations counts, if stack samples show that it is
Python or NumPy, and if the run uses no accelerator. Functions that an input pipeline calls do not
count: `python-preprocessing` judges them.

## Fix
Write the function with operations of the framework. Move what does not depend on the parameters
into the input pipeline, and what only reports values out of the step.

## Fix risk
NumPy computes in 64 bits by default, the frameworks in 32.

## When it abstains
If the operations of the host were not recorded, or the framework is unknown. For JAX on an
accelerator without recorded callbacks, because not every profiler records them there. For PyTorch
on an accelerator, or without stack samples.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.analyse.activity.callbacks import callback_lines, callback_rows, callback_time
from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.trace import NULL, Kind, Role

RULE = Rule(
    __name__,
    name="Callbacks into Python",
    found="Replace the Python callback with operations of the framework",
    clear="No Python callback delays the step",
    needs=(("host-ops", "kernels"), ("steps",)),
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
LEAST_SAVED = 0.5  # of the cost; the operations in its place take time, too

_DEBUG = regex(r"debug_(?:callback|print)(?:\.\d+)?")
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which only a callback into Python runs."""
    rows = facts.in_steady(callback_rows(facts.trace))
    unseen = "" if len(rows) else _why_unseen(facts)
    if unseen:
        return RULE.no_data("callbacks", unseen)
    copying, beside = _copying_ns(facts), _beside_ns(facts)
    alone = facts.callback_ns + copying
    cores = usable_cores(facts.trace)
    cost = alone + (beside // cores if cores else 0)
    evidence = _share(facts, alone, beside)
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence if len(rows) else ())
    if copying:
        evidence = (*evidence, Evidence("time of copies for callbacks", copying, "ns"))
    evidence = (*evidence, *_calls(facts, rows), *_lines(facts))
    gain = saving("remove callbacks", LEAST_SAVED * alone, alone + beside)
    # Only debugging output disappears, other work has to be done.
    edit = Edit("python", "gone" if _is_debugging(facts, rows) else "replaced")
    return RULE.finding(cost, evidence, _fix(facts, rows), gain, edit)


def _copying_ns(facts: Facts) -> int:
    """Time of the mean step in which an accelerator only copies for a callback, ns."""
    if not facts.has_accelerator:
        return 0  # a CPU may copy for other operations meanwhile
    copied = facts.partition.sets["transfer"] & callback_time(facts.trace)
    return on_scale(facts, mean_within(facts, copied), "transfer")


def _beside_ns(facts: Facts) -> int:
    """Time of the mean step in which callbacks share the CPU with operations, ns."""
    if facts.has_accelerator:
        return 0
    rows = facts.trace.rows(Kind.PYTHON, role=Role.EXECUTOR)
    called = facts.steady_time.common_ns(intervals_of(facts.trace, rows))
    return max(on_scale(facts, facts.mean_ns(called)) - facts.callback_ns, 0)


def _share(facts: Facts, alone_ns: int, beside_ns: int) -> tuple[Evidence, ...]:
    """Shares of the step in which callbacks run, without and beside operations."""
    wall_ns = max(facts.wall_ns, 1)
    share = Evidence("share of the step", alone_ns / wall_ns, "fraction")
    if not beside_ns:
        return (share,)
    return (share, Evidence("share beside operations on the CPU", beside_ns / wall_ns, "fraction"))


def _why_unseen(facts: Facts) -> str:
    """Why callbacks would not be seen; '' if they would."""
    framework = facts.trace.meta.framework
    if framework == "jax" and facts.has_accelerator:
        return "Not every profiler of JAX records callbacks on an accelerator."
    if framework == "pytorch" and (facts.has_accelerator or not len(facts.sampled.samples)):
        return "In PyTorch, only stack samples of a run on a CPU show callbacks."
    return "" if framework else "The trace does not show callbacks into Python."


def _calls(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """How often the step calls Python, and what calls it, the longest first."""
    nodes, text = facts.trace.nodes, facts.trace.string
    line_of = dict(zip(nodes.name.tolist(), nodes.source.tolist(), strict=True))
    names, scopes = facts.trace.slices.name[rows].tolist(), facts.trace.slices.scope[rows].tolist()
    where = {
        text(name): text(line_of.get(scope, NULL))
        for name, scope in zip(names, scopes, strict=True)
    }
    return (
        Evidence("callbacks per step", len(rows) / max(facts.steady_count, 1), "count"),
        *(
            Evidence(f"mean time of {g.name}", round(g.total_ns / g.count), "ns", where[g.name])
            for g in by_name(facts, rows)[:_SHOWN]
        ),
    )


def _lines(facts: Facts) -> tuple[Evidence, ...]:
    """The lines that callbacks spend most of their time in, by stack samples."""
    lines = callback_lines(facts.sampled)
    return tuple(
        Evidence("samples of callbacks at", count / lines.total(), "fraction", line)
        for line, count in lines.most_common(_SHOWN)
    )


def _is_debugging(facts: Facts, rows: AnyRows) -> bool:
    """Whether most of the time is spent in output of `jax.debug`."""
    if facts.trace.meta.framework != "jax":
        return False
    return _DEBUG.fullmatch(by_name(facts, rows)[0].name) is not None


def _fix(facts: Facts, rows: AnyRows) -> Fix:
    """What to do, by framework and by what most of the time is spent in."""
    framework = facts.trace.meta.framework
    if _is_debugging(facts, rows):
        return RULE.fix("jax-debug")
    in_graph = framework == "tensorflow" and (facts.trace.slices.scope[rows] != NULL).any()
    fix = RULE.fix("tf1" if in_graph else _FIXES.get(framework, "any"))
    return replace(fix, text=f"{fix.text} {_REPORTED}")


_REPORTED = "Values that are only reported, such as metrics, are not needed in every step."


_FIXES = {"pytorch": "torch", "tensorflow": "tf", "jax": "jax"}
