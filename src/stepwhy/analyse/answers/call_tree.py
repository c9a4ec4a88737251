"""The program as a tree: line, module, operation, call and kernel, with host and device time.

Each slice of the steady steps counts at one node: an operation or call below the one that called
it, device work below the operation that launched it, and what is outermost below its line and its
module. What the driving thread does besides belongs to its line. Where the trace has the Python
functions around a line, they are levels above it; of a line with several callers, the first counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.answers.drawn_categories import categories_of
from stepwhy.analyse.answers.op_costs import BOOKKEEPING, own_times
from stepwhy.analyse.answers.op_views import NO_LINE
from stepwhy.analyse.lines.line_shares import driver_parts, sampled_shares
from stepwhy.analyse.lines.program_lines import has_program_line
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.lines.slice_modules import slice_modules
from stepwhy.base.columns.groups import first_rows, group_rows
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.base.columns.nesting import innermost_time, nearest
from stepwhy.base.columns.sums import sums_of
from stepwhy.result.timeline import DRAWN_CATEGORIES
from stepwhy.trace import NULL, Kind, Role, among
from stepwhy.trace.kinds import BUSY_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lines.slice_modules import SliceModules
    from stepwhy.result.profile import NodeKind

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

BETWEEN = "(between operations)"
"""Name of the host time outside of all slices, where no line is known."""
OTHERS = "(others)"
"""Name of what is added up."""

# Calls within calls, and functions around a line; further ones count for the last of them.
_DEEPEST = 64
# A program may give each operation a name of its own.
_MOST_NODES = 1 << 17
_TOP = -1
# On a host thread: ranges and functions are no level of their own.
_CALLS = (
    Kind.OTHER, Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC, Kind.INPUT, Kind.WAIT,
    Kind.COMPILE, Kind.STORAGE,
)  # fmt: skip
_FUNCTIONS = (Kind.PYTHON, Kind.FRAMEWORK)
COUNT, HOST, DEVICE = range(3)
"""What `CallTree.own` holds: number of runs, host time and device time, ns."""


class TreeNode(msgspec.Struct, frozen=True):
    """A node.

    Args:
        parent: Position of its parent, which comes before it; -1 at the top.
        kind: What it is.
        name: Its name.
        category: What the timeline draws it as; '' for lines and modules.
    """

    parent: int
    kind: NodeKind
    name: str
    category: str = ""


class CallTree(msgspec.Struct, frozen=True):
    """The tree of a trace.

    Args:
        nodes: Parents before children.
        own: What each node itself takes in all steady steps, without those below it, see `COUNT`;
            (nodes, 3).
    """

    nodes: tuple[TreeNode, ...]
    own: Ints


class _Nodes:
    """The nodes, while they are collected."""

    def __init__(self) -> None:
        self.all: list[TreeNode] = []
        self._known: dict[tuple[int, NodeKind, str], int] = {}

    def child(self, parent: int, kind: NodeKind, name: str, category: str = "") -> int:
        """The node of this name below another one; beyond the limit, one for all names."""
        key = parent, kind, name
        if key not in self._known:
            if len(self.all) >= _MOST_NODES and kind != "others":
                return self.child(parent, "others", OTHERS, category)
            self._known[key] = len(self.all)
            self.all.append(TreeNode(parent, kind, name, category))
        return self._known[key]


class _Places:
    """Finds the node of the line and the module that a slice is in."""

    def __init__(self, facts: Facts, nodes: _Nodes, *, has_lines: bool) -> None:
        self._facts, self._nodes = facts, nodes
        self.line = facts.derived(slice_lines)
        modules: SliceModules | None = facts.derived(slice_modules)
        count = len(facts.trace.slices)
        self.module = np.zeros(count, np.int64) if modules is None else modules.number
        self._paths = ("",) if modules is None else modules.paths
        self._callers = _callers(facts)
        self.has_lines = has_lines or bool((self.line != NULL).any())

    def of_rows(self, rows: Ints) -> Ints:
        """Nodes of some slices; (rows,)."""
        line, module = self.line[rows], self.module[rows]
        first, group = group_rows(line, module)
        pairs = zip(line[first].tolist(), module[first].tolist(), strict=True)
        found = [self.of_line(line, module) for line, module in pairs]
        return np.array(found, dtype=np.int64)[group]

    def of_line(self, line: int, module: int = 0) -> int:
        """The node of a module in a line, a string of the trace; at the top without either."""
        return self.of_text(self._facts.trace.string(line) if line != NULL else "", module)

    def of_text(self, line: str, module: int = 0) -> int:
        """The same, by the text of the line, '' for none."""
        node = _TOP
        for one in (*self._callers.get(line, ()), line):
            node = self._nodes.child(node, "line", one) if one else node
        if not line and self.has_lines:
            node = self.of_nothing()
        for part in self._paths[module].split("/", _DEEPEST):
            node = self._nodes.child(node, "module", part) if part else node
        return node

    def of_nothing(self) -> int:
        """The node of time that no line is credited with."""
        return self._nodes.child(_TOP, "rest", NO_LINE if self.has_lines else BETWEEN)

    def alike(self, rows: Ints, others: Ints) -> Mask:
        """Whether slices are in the line and module of others; (rows,)."""
        is_line: Mask = self.line[rows] == self.line[others]
        is_module: Mask = self.module[rows] == self.module[others]
        return is_line & is_module


def call_tree(facts: Facts) -> CallTree:
    """The tree of the steady steps of a trace; empty if nothing ran in them."""
    nodes = _Nodes()
    shown = _shown(facts)
    rows = facts.in_steady(np.flatnonzero(shown | _functions(facts))).astype(np.int64)
    between = _time_between(facts, rows)
    places = _Places(facts, nodes, has_lines=any(between))
    credit = _credited(facts, rows, _nodes_of(facts, shown, places, nodes), places)
    others = [places.of_text(line) if line else places.of_nothing() for line in between]
    node = np.append(credit, np.array(others, dtype=np.int64))
    values = np.array([(0, ns, 0) for ns in between.values()], dtype=np.int64).reshape(-1, 3)
    values = np.concatenate([_values(facts, rows, shown), values])
    own = [sums_of(column, node, len(nodes.all)) for column in values.T]
    return CallTree(tuple(nodes.all), np.stack(own, axis=1))


def _shown(facts: Facts) -> Mask:
    """Mask of the slices that are nodes: operations, calls and device work; (slices,)."""
    trace = facts.trace
    slices, role = trace.slices, trace.tracks.role[trace.slices.track]
    is_op = _operations(facts)
    calls = (role == Role.HOST_THREAD) & (among(slices.kind, _CALLS) | is_op)
    inside = nearest(facts.nesting, is_op) != NULL
    on_device = (role == Role.STREAM) & among(slices.kind, BUSY_KINDS)
    executed = (role == Role.EXECUTOR) & ~among(slices.kind, (Kind.STEP, Kind.ANNOTATION))
    # Nodes that TensorFlow adds on every device; they are not part of the program.
    named = ~np.isin(slices.scope, trace.strings_where(BOOKKEEPING))
    found: Mask = (calls & (inside | _driving(facts)) | on_device | executed) & named
    return found


def _operations(facts: Facts) -> Mask:
    """Mask of the operations on host threads; (slices,)."""
    slices = facts.trace.slices
    on_host = facts.trace.tracks.role[slices.track] == Role.HOST_THREAD
    found: Mask = on_host & ((slices.kind == Kind.OP) | (slices.scope != NULL))
    return found


def _driving(facts: Facts) -> Mask:
    """Mask of the slices of the threads that run the steps; (slices,)."""
    return np.isin(facts.trace.slices.track, facts.threads.all)


def _functions(facts: Facts) -> Mask:
    """Mask of the functions whose own time counts for their line; (slices,)."""
    inside = nearest(facts.nesting, _operations(facts)) != NULL
    found: Mask = facts.trace.is_kind(*_FUNCTIONS) & (inside | _driving(facts))
    return found


def _callers(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Lines of the functions around each line, outermost first."""
    trace = facts.trace
    is_function = trace.is_kind(Kind.PYTHON) & has_program_line(trace)
    rows = np.flatnonzero(is_function)
    if not len(rows):
        return {}
    above = np.append(nearest(facts.nesting, is_function), NULL)
    source, parent = trace.slices.source, facts.nesting.parent
    found = {}
    for row in rows[first_rows(source[rows])].tolist():
        line = int(source[row])
        around: dict[int, None] = {}
        while len(around) < _DEEPEST and (row := int(above[parent[row]])) != NULL:
            around[int(source[row])] = None
        around.pop(line, None)
        found[trace.string(line)] = tuple(map(trace.string, reversed(around)))
    return found


def _nodes_of(facts: Facts, shown: Mask, places: _Places, nodes: _Nodes) -> Ints:
    """The node that each of the shown slices is, NULL for others; (slices,)."""
    above = _above(facts, shown, places)
    node = np.full(len(shown), NULL, dtype=np.int64)
    pending = np.flatnonzero(shown)
    level = _Level(facts, nodes)
    for _ in range(_DEEPEST):
        ready = (above[pending] == NULL) | (np.append(node, NULL)[above[pending]] != NULL)
        rows, pending = pending[ready], pending[~ready]
        if not len(rows):
            break
        parent = np.append(node, NULL)[above[rows]]
        outer = np.flatnonzero(above[rows] == NULL)
        parent[outer] = places.of_rows(rows[outer])
        node[rows] = level.below(parent, rows)
    return node


def _above(facts: Facts, shown: Mask, places: _Places) -> Ints:
    """The slice below which each one is shown, NULL for its line and module; (slices,)."""
    parent = facts.nesting.parent
    above = np.append(nearest(facts.nesting, shown), NULL)[parent].astype(np.int64)
    inside = np.flatnonzero(above != NULL)
    apart = inside[~places.alike(inside, above[inside])]
    above[apart] = NULL
    work, calls = facts.launches.joined
    above[work] = nearest(facts.nesting, shown & _operations(facts))[calls]
    return above


class _Level:
    """Adds the nodes of slices."""

    def __init__(self, facts: Facts, nodes: _Nodes) -> None:
        self._trace, self._nodes = facts.trace, nodes
        self._category = categories_of(facts)
        role = facts.trace.tracks.role[facts.trace.slices.track]
        is_op = _operations(facts) | (role == Role.EXECUTOR)
        self._kind = np.where(role == Role.STREAM, 2, np.where(is_op, 0, 1))

    def below(self, parent: Ints, rows: Ints) -> Ints:
        """Nodes of slices by their name; (rows,).

        Args:
            parent: The nodes above them; (rows,).
            rows: The slices; (rows,).
        """
        names = self._trace.slices.name[rows]
        first, group = group_rows(parent, names.astype(np.int64), self._kind[rows])
        found = [self._node(int(parent[one]), int(rows[one])) for one in first.tolist()]
        return np.array(found, dtype=np.int64)[group]

    def _node(self, parent: int, row: int) -> int:
        kinds: tuple[NodeKind, ...] = ("operation", "call", "kernel")
        name = self._trace.string(int(self._trace.slices.name[row]))
        category = DRAWN_CATEGORIES[int(self._category[row])]
        return self._nodes.child(parent, kinds[int(self._kind[row])], name, category)


def _credited(facts: Facts, rows: Ints, node: Ints, places: _Places) -> Ints:
    """The node at which each slice counts; (rows,)."""
    around = nearest(facts.nesting, node != NULL)[rows].astype(np.int64)
    is_inside = (around != NULL) & ((around == rows) | places.alike(rows, around))
    found = node[around]
    found[~is_inside] = places.of_rows(rows[~is_inside])
    # Time of the framework outside of any line and module.
    return np.where(found == _TOP, places.of_nothing(), found)


def _values(facts: Facts, rows: Ints, shown: Mask) -> Ints:
    """What each slice adds to its node, see `COUNT`; (rows, 3)."""
    own_ns = own_times(facts, rows)
    on_host = facts.trace.tracks.role[facts.trace.slices.track[rows]] == Role.HOST_THREAD
    columns = (
        shown[rows].astype(np.int64),
        np.where(on_host, own_ns, 0),
        np.where(on_host, 0, own_ns),
    )
    return np.stack(columns, axis=1)


def _time_between(facts: Facts, rows: Ints) -> dict[str, int]:
    """The driving thread's time outside of some slices by line, '' for none, ns of all steps."""
    steps, driving = facts.steps, facts.threads.driving
    if driving < 0:
        return {}
    busy = np.zeros(len(facts.trace.slices), dtype=bool)
    busy[rows[facts.trace.slices.track[rows] == driving]] = True
    steady = Intervals.of(steps.host_starts[steps.steady], steps.host_ends[steps.steady])
    free = Measure(steady - innermost_time(facts.nesting, busy))
    parts, found = driver_parts(facts), dict[str, int]()
    if parts is None:
        for owner, share in sampled_shares(facts, "python").items():
            found[owner.line] = found.get(owner.line, 0) + int(free.total_ns * share)
    else:
        ns = free.within(parts.starts, parts.ends)
        first, group = group_rows(parts.line)
        sums = sums_of(ns, group, len(first)).tolist()
        found = {
            facts.trace.string(int(parts.line[i])): n for i, n in zip(first, sums, strict=True)
        }
    found[""] = free.total_ns - sum(ns for line, ns in found.items() if line)
    return {line: ns for line, ns in found.items() if ns}


__all__ = ["BETWEEN", "COUNT", "DEVICE", "HOST", "OTHERS", "CallTree", "TreeNode", "call_tree"]
