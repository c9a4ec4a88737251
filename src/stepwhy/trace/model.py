"""The columnar model of a trace, the same for all profilers."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NewType

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.null import NULL
from stepwhy.base.columns.strings import Strings
from stepwhy.trace.schema import TABLES, Table, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.trace.health import Health
    from stepwhy.trace.kinds import Kind, Role

SliceIndex = NewType("SliceIndex", int)
StringIndex = NewType("StringIndex", int)


class Columns(SimpleNamespace):
    """The arrays of one table, one attribute per column of `schema.COLUMNS`, equally long.

    They are read-only: a column that is null everywhere is a single value in memory.
    """

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(vars(self).values())))


class Meta(msgspec.Struct, frozen=True):
    """Facts about the run as a whole.

    Args:
        format: Name of the format, e.g. 'kineto'.
        framework: 'pytorch', 'tensorflow', 'jax' or ''.
        framework_version: Version as written in the trace, or ''.
        rank: Rank of this process; NULL when not recorded.
        world_size: Number of ranks; NULL when not recorded.
        stages: Pairs of a rank and its pipeline stage, those that are known.
        command: The command that was run, redacted, or ''.
        python: Version of Python, or ''.
        cpu: Model of the processor, or ''.
        signals: Kinds of information in the trace; passes abstain if they need a missing one:
            'host-ops', 'device-activity' (accelerators were observed, even if there was none),
            'runtime-calls', 'copy-bytes', 'input', 'python-stacks', 'placement', 'step-log',
            'memory', 'whole-step' (the trace is exactly one run of a graph, or several runs, each
            of which is a step), 'summaries' (only values that the training logged, no steps),
            'ranges' (only named ranges, which are used as operations), 'passes' (device time is
            of whole forward and backward passes, not of kernels), 'ranks' (every process is a
            rank of one run; its id is the rank), 'programs' (the compiled programs that ran, so
            that tables about their instructions are complete), 'host-ahead' (the host was seen to
            begin steps before the device had finished earlier ones), 'collective-calls' (which
            collectives each rank has entered, in order), 'open-collectives' (which of them have not
            ended).
        device_expected: Whether an accelerator was in use, seen or not; also if nothing shows that
            `idle_accelerator` was not.
        idle_accelerator: Model of an accelerator that the machine has, and that the run is not
            known to have given work; '' if none is known.
        notes: Facts about the trace for the reader, e.g. why a part cannot be judged.
        limit: Why the trace cannot show where the time of a step goes, and what to do: a clause
            without a capital or a full stop. '' if it can; otherwise no time is explained.
        exit_code: Exit code of the observed command; None if unknown.
        exception: Type of the exception that ended it, or ''.
        ending: How it ended, in one or two sentences; '' when it ended well.
        run_ns: Start and end of the observed command, ns; None if either is unknown.
        untraced: Why none of its steps was traced, a clause; '' if some were.
        untraced_advice: What to do about that, without a full stop.
        settings: Environment variables of the process that may slow it, with their values.
    """

    format: str
    framework: str = ""
    framework_version: str = ""
    rank: int = NULL
    world_size: int = NULL
    stages: tuple[tuple[int, int], ...] = ()
    command: str = ""
    signals: frozenset[str] = frozenset()
    device_expected: bool = False
    idle_accelerator: str = ""
    notes: tuple[str, ...] = ()
    limit: str = ""
    exit_code: int | None = None
    exception: str = ""
    ending: str = ""
    run_ns: tuple[int, int] | None = None
    untraced: str = ""
    untraced_advice: str = ""
    python: str = ""
    cpu: str = ""
    settings: tuple[tuple[str, str], ...] = ()


class Trace(msgspec.Struct, frozen=True, dict=True):
    """Everything observed of one process (or of one graph run over several devices).

    Tables are `Columns`; see `schema.COLUMNS` for unit, null and order of each column.

    Args:
        strings: The interned strings, packed if there are many; every 'string' column contains
            indices into it.
        meta: Facts about the whole run.
        health: What was lost, repaired or guessed while reading.
    """

    strings: Sequence[str]
    devices: Columns
    tracks: Columns
    slices: Columns
    flows: Columns
    counters: Columns
    nodes: Columns
    copies: Columns
    marks: Columns
    samples: Columns
    visits: Columns
    events: Columns
    levels: Columns
    stages: Columns
    executions: Columns
    session_values: Columns
    allocations: Columns
    waits: Columns
    collectives: Columns
    operands: Columns
    line_times: Columns
    instruction_scopes: Columns
    rewrites: Columns
    step_ops: Columns
    index_inputs: Columns
    discards: Columns
    table_updates: Columns
    argument_uses: Columns
    collective_calls: Columns
    positions: Columns
    meta: Meta
    health: Health

    def table(self, name: Table) -> Columns:
        """A table by its name."""
        columns: Columns = getattr(self, name)
        return columns

    def string(self, index: int) -> str:
        """The string at an index, '' for the null."""
        return "" if index == NULL else self.strings[index]

    def strings_where(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Indices of the strings in the trace that are among some texts, ascending."""
        if isinstance(self.strings, Strings):
            return self.strings.where_any(texts)
        targets, index = set(texts), self._index
        if len(index) == len(self.strings):
            found = sorted(index[s] for s in targets if s in index)
        else:  # a stored trace may repeat a string
            found = [i for i, s in enumerate(self.strings) if s in targets]
        return np.asarray(found, dtype=np.int64)

    def matches(
        self, column: NDArray[np.int32], accepts: Callable[[str], object]
    ) -> NDArray[np.bool_]:
        """Whether each text of a column of strings is accepted; asked once per text; (rows,)."""
        strings, place = numbered(column)
        found: NDArray[np.bool_] = np.array(
            [bool(accepts(self.string(index))) for index in strings.tolist()], dtype=bool
        )
        return found[place]

    @cached_property
    def _index(self) -> dict[str, int]:
        """Index of every string."""
        return {text: index for index, text in enumerate(self.strings)}

    @property
    def end_ns(self) -> NDArray[np.int64]:
        """End of every slice, ns; (slices,)."""
        ends: NDArray[np.int64] = self.slices.start_ns + self.slices.dur_ns
        return ends

    @property
    def last_end_ns(self) -> int:
        """End of the slice that ends last, ns; there must be a slice."""
        starts, durations = self.slices.start_ns, self.slices.dur_ns
        return max(int((starts[some] + durations[some]).max()) for some in chunks(len(starts)))

    def last_end_of(self, chosen: NDArray[np.bool_]) -> int | None:
        """End of the chosen slice that ends last, ns; None if none is chosen.

        Args:
            chosen: Mask of slices; (slices,).
        """
        starts, durations = self.slices.start_ns, self.slices.dur_ns
        lasts = (
            int((starts[some][chosen[some]] + durations[some][chosen[some]]).max())
            for some in chunks(len(starts))
            if chosen[some].any()
        )
        return max(lasts, default=None)

    def ends(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ends of some slices, ns; (rows,)."""
        ends: NDArray[np.int64] = self.slices.start_ns[rows]
        ends += self.slices.dur_ns[rows]
        return ends

    def is_kind(self, *kinds: Kind) -> NDArray[np.bool_]:
        """Mask of the slices of some kinds; (slices,)."""
        return among(self.slices.kind, kinds)

    def rows(self, *kinds: Kind, role: Role | None = None) -> NDArray[np.int64]:
        """Rows of slices of some kinds, optionally only on tracks of one role, ascending."""
        rows = np.flatnonzero(self.is_kind(*kinds))
        if role is not None and len(self.tracks):
            rows = rows[self.tracks.role[self.slices.track[rows]] == int(role)]
        return rows


# `np.isin` is faster for more members than this.
_FEW = 16


def among(values: NDArray[Any], members: Collection[int]) -> NDArray[np.bool_]:
    """Like `np.isin`, but fast for few members; (values,)."""
    if len(members) > _FEW:
        return np.isin(values, list(members))
    found = np.zeros(len(values), dtype=bool)
    for member in members:
        found |= values == int(member)
    return found


def empty_columns(table: Table) -> Columns:
    """A table without rows."""
    return Columns(**{c.name: np.empty(0, dtype=c.dtype) for c in columns_of(table)})


__all__ = [
    "NULL",
    "TABLES",
    "Columns",
    "Meta",
    "SliceIndex",
    "StringIndex",
    "Trace",
    "among",
    "empty_columns",
]
