"""Operations of PyTorch whose results go to waste, as the step shows that was looked at."""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.semantic_ops import Matched, matched_ops, work_ns
from stepwhy.base.columns.types import Ints, Mask
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.trace import NULL

_WEIGHTED_BY_ZERO = 2
_READ_SCALAR = "aten::_local_scalar_dense"


class Unread(msgspec.Struct, frozen=True):
    """Operations of the steady steps whose results go to waste.

    Args:
        rows: Slices, ascending; (rows,).
        times_ns: Time of each; (rows,).
        is_weighted: Whether all that comes of its result is multiplied by zero; (rows,).
        reading: Share of the steps that may read such results, as they read more numbers than the
            step that was looked at, 0..1.
    """

    rows: Ints
    times_ns: Ints
    is_weighted: Mask
    reading: float

    def cost_ns(self, facts: Facts) -> int:
        """Time of the mean step in these operations, but for steps that may read results, ns."""
        spent = np.where(self.is_weighted, self.times_ns, self.times_ns * (1 - self.reading))
        return on_scale(facts, facts.mean_ns(round(float(spent.sum()))))

    @property
    def is_mostly_weighted(self) -> bool:
        """Whether most of the time is for what is multiplied by zero."""
        return bool(2 * self.times_ns[self.is_weighted].sum() > self.times_ns.sum())


def unread(facts: Facts) -> Unread:
    """The operations of the steady steps whose results go to waste; none if that is not known."""
    return facts.derived(_unread)


def _unread(facts: Facts) -> Unread:
    none = np.zeros(0, dtype=np.int64)
    if not len(facts.trace.step_ops):
        return Unread(none, none, none.astype(np.bool_), 0.0)
    matched = matched_ops(facts)
    uses = np.where(matched.places == NULL, 0, facts.trace.step_ops.unread[matched.places])
    chosen = uses > 0
    return Unread(
        matched.rows[chosen].astype(np.int64),
        work_ns(facts, matched)[chosen],
        uses[chosen] == _WEIGHTED_BY_ZERO,
        _reading(facts, matched),
    )


def _reading(facts: Facts, matched: Matched) -> float:
    """Share of the steady steps that read more numbers than the step that was looked at."""
    named = facts.trace.strings_where({_READ_SCALAR})
    usual = int(np.isin(facts.trace.step_ops.name, named).sum())
    rows = matched.rows[np.isin(facts.trace.slices.name[matched.rows], named)]
    step = np.searchsorted(facts.steps.starts, facts.trace.slices.start_ns[rows], side="right")
    counts = np.unique(step, return_counts=True)[1]
    return float((counts > usual).sum()) / max(facts.steady_count, 1)
