"""Views: steps, breakdown, lines of the program, operations, ranks, findings; as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict

from stepwhy.analyse.answers.rank_steps import step_times
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.base.columns.sums import LARGEST
from stepwhy.result import CATEGORIES
from stepwhy.show.export.arrow import text_array
from stepwhy.trace import NULL, Kind, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.result import Finding, LineOperation, LineTime, Result

VIEWS: dict[str, dict[str, tuple[str, str, str]]] = {
    "steps": {
        "number": ("BIGINT", "", "Number of the step in the trace of its rank, from 1."),
        "start_ns": ("BIGINT", "ns", "Start of the step."),
        "end_ns": (
            "BIGINT",
            "ns",
            "Its end, exclusive; the end of its device work if steps are cut there.",
        ),
        "dur_ns": ("BIGINT", "ns", "Its wall time."),
        "steady": ("BOOLEAN", "", "Whether reports describe it: not warm-up."),
    },
    "breakdown": {
        "step": ("BIGINT", "", "Number of the step."),
        "category": ("VARCHAR", "", "Category: compute, input_wait, sync ..."),
        "ns": ("BIGINT", "ns", "Time of the recorded step in it; a step's rows sum to dur_ns."),
        "steady": ("BOOLEAN", "", "As in steps."),
    },
    "lines": {
        "line": ("VARCHAR", "", "Line of the program; null for what no single line causes."),
        "kind": ("VARCHAR", "", "line, communication, or uncredited: no line is known."),
        "category": ("VARCHAR", "", "As in breakdown."),
        "phase": ("VARCHAR", "", "forward, backward, optimizer ...; null if unknown."),
        "ns": ("BIGINT", "ns", "Time in the mean steady step; all rows sum to the step."),
    },
    "line_ops": {
        "line": ("VARCHAR", "", "Line of the program."),
        "module": (
            "VARCHAR",
            "",
            "Module or name scope, of a line with more than 80 % of the step; null if unknown.",
        ),
        "op": ("VARCHAR", "", "Operation that it runs, also in the backward pass."),
        "phase": ("VARCHAR", "", "forward, backward, optimizer ...; null if unknown."),
        "count": ("DOUBLE", "", "Runs in the mean steady step."),
        "ns": ("BIGINT", "ns", "Its part of the line's time, for the longest operations."),
    },
    "ops": {
        "name": ("VARCHAR", "", "Operation or kernel."),
        "device": ("VARCHAR", "", "Device that ran it; 'host' for calls of the host."),
        "phase": ("VARCHAR", "", "forward, backward, optimizer ...; null if unknown."),
        "kind": ("VARCHAR", "", "As in slices."),
        "count": ("DOUBLE", "", "Runs in the mean steady step."),
        "total_ns": ("BIGINT", "ns", "Time in the mean steady step."),
        "self_ns": ("BIGINT", "ns", "The part of it that is not in operations inside of it."),
        "bytes": ("BIGINT", "bytes", "Bytes moved or produced in the mean steady step."),
    },
    "ranks": {
        "step_ns": ("BIGINT", "ns", "Wall time of its mean steady step."),
        "work_ns": ("BIGINT", "ns", "The part of it that is not spent communicating only."),
        "wait_ns": ("BIGINT", "ns", "Time in collectives until the last rank has arrived."),
        "transfer_ns": ("BIGINT", "ns", "Time in the same collectives from then on."),
        "unsplit_ns": (
            "BIGINT",
            "ns",
            "Time in other collectives, whose waits and transfers cannot be told apart.",
        ),
        "late_ns": ("BIGINT", "ns", "How much longer the median of the others waits."),
        "late_steps": ("BIGINT", "", "Steps in which it is late, if more than by chance."),
        "caused_wait_ns": (
            "BIGINT",
            "ns",
            "What all others wait in collectives in which it arrives last.",
        ),
        "last": ("BIGINT", "", "Number of such collectives in all steps."),
        "longer": ("VARCHAR", "", "Category that takes it longer than the others, if it is late."),
        "longer_ns": ("BIGINT", "ns", "How much longer."),
        "operation": ("VARCHAR", "", "Operation that takes it longer."),
        "phase": ("VARCHAR", "", "Phase of that operation."),
        "line": ("VARCHAR", "", "Line of the program that takes it longer."),
    },
    "rank_steps": {
        "step": ("BIGINT", "", "Number of the step by its marker, else its place in the trace."),
        "work_ns": ("BIGINT", "ns", "Time that is not spent communicating only, as recorded."),
        "wait_ns": ("BIGINT", "ns", "Time in collectives until the last rank has arrived."),
    },
    "findings": {
        "id": ("VARCHAR", "", "Name of the diagnosis."),
        "verdict": ("VARCHAR", "", "found, clear, not_applicable, no_data, incomplete or error."),
        "title": ("VARCHAR", "", "What to change if found, else what was looked for."),
        "cost_ns": ("BIGINT", "ns", "Cost in the mean steady step."),
        "saving_low_ns": ("BIGINT", "ns", "Least that the fix should save per step."),
        "saving_high_ns": ("BIGINT", "ns", "Most that it should save."),
        "method": ("VARCHAR", "", "How that was predicted: bound, cpu, replay or ranks."),
        "edit": ("VARCHAR", "", "The change, as 'stepwhy whatif --edit' takes it."),
        "explained_by": ("VARCHAR", "", "The finding that has to be fixed before this one."),
        "reason": ("VARCHAR", "", "Why nothing could be found out."),
    },
}
"""SQL type, unit and meaning of each column, by view."""


def view_of(name: str, facts: Facts) -> Any:
    """A view of one rank as a `pyarrow.Table`.

    Args:
        name: 'steps', 'breakdown', 'lines', 'line_ops' or 'ops'.
        facts: Facts of the rank.
    """
    return _OF_RANK[name](facts)


def findings_view(result: Result) -> Any:
    """The findings of a run as a `pyarrow.Table`, with predicted savings."""
    return _record_table("findings", map(_finding, result.findings))


def ranks_view(result: Result) -> Any:
    """The ranks of a run as a `pyarrow.Table`, as reports list them; empty for a single rank."""
    rows = (
        {name: None if value == "" else value for name, value in asdict(rank).items()}
        for rank in result.ranks
    )
    return _record_table("ranks", rows, rank="INTEGER")


def rank_steps_view(facts: Facts) -> Any:
    """Each step of each rank as a `pyarrow.Table`; empty if ranks are not compared.

    Args:
        facts: Facts of one rank, with the summaries of all.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_record_table`

    times = step_times(facts)
    if times is None:
        return _record_table("rank_steps", [], rank="INTEGER")
    return _table(
        step=np.tile(times.steps, len(times.ranks)),
        work_ns=times.work.ravel(),
        wait_ns=times.wait.ravel(),
        rank=pa.array(np.repeat(times.ranks, len(times.steps)), pa.int32()),
    )


def _record_table(view: str, records: Iterable[dict[str, Any]], **more: str) -> Any:
    """A table of records that have the columns of a view, and some more, by SQL type."""
    import pyarrow as pa  # noqa: PLC0415 - optional, and the import takes 0.1 s

    types = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32()}
    kinds = {name: kind for name, (kind, *_) in VIEWS[view].items()} | more
    schema = pa.schema((name, types[kind]) for name, kind in kinds.items())
    return pa.Table.from_pylist(list(records), schema=schema)


def _finding(one: Finding) -> dict[str, str | int | None]:
    saving = one.saving
    return {
        "id": one.id,
        "verdict": one.verdict,
        "title": one.title,
        "cost_ns": one.cost_ns_per_step,
        "saving_low_ns": None if saving is None else saving.low_ns,
        "saving_high_ns": None if saving is None else saving.high_ns,
        "method": None if saving is None else saving.method,
        "edit": None if one.edit is None else str(one.edit),
        "explained_by": one.explained_by or None,
        "reason": one.reason or None,
    }


def _steps(facts: Facts) -> Any:
    steps = facts.recorded_steps
    return _table(
        number=np.arange(1, len(steps.starts) + 1),
        start_ns=steps.starts,
        end_ns=steps.ends,
        dur_ns=steps.durations_ns,
        steady=_is_steady(facts),
    )


def _breakdown(facts: Facts) -> Any:
    times = facts.partition.per_step(facts.recorded_steps)
    count, categories = times.shape
    return _table(
        step=np.repeat(np.arange(1, count + 1), categories),
        category=_texts(np.tile(np.arange(categories), count), CATEGORIES),
        ns=times.ravel(),
        steady=np.repeat(_is_steady(facts), categories),
    )


def _lines(facts: Facts) -> Any:
    """The time of each line, by category and phase; phases of computation only."""
    rows = [
        (row.line or None, row.kind, category, phase, ns)
        for row in _line_rows(facts)
        for category, own in row.categories.items()
        for phase, ns in _phases(row, category, own)
        if ns
    ]
    return _row_table("lines", rows)


def _phases(row: LineTime, category: str, ns: int) -> list[tuple[str | None, int]]:
    """A time by phase, with the rest of it, whose phase is not known."""
    known = {name: own for name, own in row.phases.items() if name != "unknown"}
    known = known if category == "compute" else {}
    return [*known.items(), (None, ns - sum(known.values()))]


def _line_ops(facts: Facts) -> Any:
    rows = [
        (row.line, module, one.name, _known(one.phase), one.count, one.time_ns)
        for row in _line_rows(facts)
        for module, operations in _group_by_module(row)
        for one in operations
        if row.kind == "line"
    ]
    return _row_table("line_ops", rows)


def _group_by_module(row: LineTime) -> list[tuple[str | None, tuple[LineOperation, ...]]]:
    if not row.modules:
        return [(None, row.operations)]
    return [(one.module or None, one.operations) for one in row.modules]


def _known(phase: str) -> str | None:
    return None if phase == "unknown" else phase


def _line_rows(facts: Facts) -> tuple[LineTime, ...]:
    lines = facts.derived(line_breakdown)
    return () if lines is None else lines.lines


def _row_table(view: str, rows: Sequence[tuple[Any, ...]]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see `_record_table`

    types = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    schema = pa.schema((name, types[kind]) for name, (kind, *_) in VIEWS[view].items())
    return pa.Table.from_pylist([dict(zip(VIEWS[view], row, strict=True)) for row in rows], schema)


def _is_steady(facts: Facts) -> NDArray[np.bool_]:
    """Mask of the recorded steps that means are computed over; (steps,)."""
    return np.isin(facts.recorded_steps.starts, facts.steps.starts[facts.steps.steady])


def _ops(facts: Facts) -> Any:
    ops, trace = facts.ops, facts.trace
    names = [*map(trace.string, trace.devices.name.tolist()), "host"]
    device = np.where(ops.device == NULL, len(names) - 1, ops.device)
    order = np.argsort(-ops.self_ns, kind="stable")
    columns = {
        "name": _texts(ops.name[order], trace.strings),
        "device": _texts(device[order], names),
        "phase": _texts(ops.phase[order], _lower(Phase), null=Phase.UNKNOWN),
        "kind": _texts(ops.kind[order], _lower(Kind)),
        "count": np.round(ops.count[order] / max(facts.steady_count, 1), 2),
    }
    times = {name: _means(facts, getattr(ops, name)[order]) for name in ("total_ns", "self_ns")}
    sums = ops.bytes[order]
    import pyarrow as pa  # noqa: PLC0415 - see `_record_table`

    return _table(**columns, **times, bytes=pa.array(_means(facts, sums), mask=sums == NULL))


def _lower(enum: type[Phase | Kind]) -> list[str]:
    """Names of the members at the positions of their values."""
    names = {int(member): member.name.lower() for member in enum}
    return [names.get(value, "") for value in range(max(names) + 1)]


def _means(facts: Facts, sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums over the steady steps as means per step; (rows,)."""
    means = np.minimum(np.rint(sums / max(facts.steady_count, 1)), LARGEST)
    return means.astype(np.int64)


def _texts(values: NDArray[Any], texts: Sequence[str], *, null: int = NULL) -> Any:
    return text_array(values, np.asarray(values == null), texts)


def _table(**columns: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see `_record_table`

    return pa.table(columns)


_OF_RANK: dict[str, Callable[[Facts], Any]] = {
    "steps": _steps,
    "breakdown": _breakdown,
    "lines": _lines,
    "line_ops": _line_ops,
    "ops": _ops,
}
