"""Rows of results that nothing reads, as the step shows that was looked at."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.semantic_ops import matched_ops, shares_of, work_ns
from stepwhy.base.columns.types import Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_string, on_scale
from stepwhy.diagnose.shared.rule import Evidence
from stepwhy.trace import NULL

_PER_MILLE = 1000
# Products, reductions and look-ups. Where only operations by element, such as an activation, come
# before the choice of rows, no program has shown that choosing first is faster.
_HEAVY = regex(r"aten::.*(mm|matmul|linear|conv|norm|softmax|sum|mean|cdist|einsum|embedding).*")
_SHOWN = 2
_ROWS, _TABLE = "rows", "table"
WAYS = ("ignored", _ROWS, _TABLE, "place", "diagonal")
"""How the rows are chosen that are read: by what a loss counts, by an index, by one into a table of
parameters, by their place, or as a diagonal."""


class UnusedRows(msgspec.Struct, frozen=True):
    """Operations of the steady steps that compute mostly rows that nothing reads.

    Args:
        rows: Slices, ascending; (rows,).
        places: Rows of `step_ops`, NULL where they do not match; (rows,).
        times_ns: Time of each for what nothing reads; (rows,).
        whole_ns: Time of each; (rows,).
    """

    rows: Ints
    places: Ints
    times_ns: Ints
    whole_ns: Ints

    def cost_ns(self, facts: Facts) -> int:
        """Time of the mean step for what nothing reads, ns."""
        return on_scale(facts, facts.mean_ns(int(self.times_ns.sum())))


def knows_rows(facts: Facts) -> bool:
    """Whether it is known of all operations which rows of their results are read."""
    return not (facts.trace.step_ops.unused == NULL).any()


def unused_rows(facts: Facts) -> UnusedRows:
    """The operations of the steady steps with such rows, but for results that nothing reads at all.

    None of them if that is not known.
    """
    ops, matched = facts.trace.step_ops, matched_ops(facts)
    values = np.where((ops.unused == NULL) | (ops.unread > 0), 0, ops.unused)
    shares = shares_of(facts, matched, values) / _PER_MILLE
    some = shares > 0
    some[some] = _after_heavy(facts, matched.rows[some], matched.places[some])
    whole = work_ns(facts, matched)[some]
    spent = np.rint(shares[some] * whole).astype(np.int64)
    return UnusedRows(matched.rows[some], matched.places[some], spent, whole)


def _after_heavy(facts: Facts, rows: Ints, places: Ints) -> Mask:
    """Mask of the slices whose line that chooses rows chooses from heavy operations, too."""
    lines = np.where(places == NULL, NULL, facts.trace.step_ops.chosen_at[places])
    names = facts.trace.slices.name[rows]
    return np.isin(lines, lines[facts.trace.matches(names, _HEAVY.fullmatch)])


def main_way(facts: Facts, found: UnusedRows) -> str:
    """How the rows are chosen where it costs most, one of `WAYS`."""
    ops = facts.trace.step_ops
    spent = dict.fromkeys(WAYS, 0)
    for place, time_ns in zip(found.places.tolist(), found.times_ns.tolist(), strict=True):
        way = facts.trace.string(int(ops.chosen_by[place])) if place != NULL else ""
        way = _TABLE if way == _ROWS and ops.of_table[place] == 1 else way
        if way in spent:
            spent[way] += time_ns
    return max(spent, key=lambda way: spent[way])


def choices(facts: Facts, found: UnusedRows) -> Iterator[Evidence]:
    """The lines that choose, with the share of the work before them that is for nothing."""
    lines = np.where(found.places == NULL, NULL, facts.trace.step_ops.chosen_at[found.places])
    known = lines != NULL
    whole = by_string(facts, lines[known], found.whole_ns[known])
    spent = {g.name: g.total_ns for g in by_string(facts, lines[known], found.times_ns[known])}
    for group in whole[:_SHOWN]:
        share = spent[group.name] / max(group.total_ns, 1)
        yield Evidence("share of the rows that is left out at", share, "fraction", group.name)
