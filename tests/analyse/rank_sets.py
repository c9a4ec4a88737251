"""Sets of ranks with a known truth: who works how long in each step, and which groups are slow."""

import numpy as np

from stepwhy.analyse.ranks.collectives import Collectives, Role
from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL

MS = 1_000_000
MOVES_NS = 2 * MS  # the all-reduce
PAIR_NS = MS  # the all-gather of a pair


def roles_of(rank, ranks, *, recorded=True):
    """The all-gather of its pair, and the all-reduce of all ranks."""
    if not recorded:
        return Role("all-gather"), Role("all-reduce")
    pair = [rank - rank % 2, rank - rank % 2 + 1]
    every = str(list(range(ranks)))
    return Role("all-gather", "1", str(pair), "tp", 2), Role("all-reduce", "0", every, "", ranks)


def make_set(work_ns, pair_ns=None, offset_ns=None, drift=None, *, first=10, present=None):
    """Ranks that work, gather in pairs, and reduce all together, step by step.

    Args:
        work_ns: Work of each rank in each step; (ranks, steps).
        pair_ns: How long the data of its pair moves, likewise; `PAIR_NS` by default.
        offset_ns: How much later each clock is; (ranks,).
        drift: How much faster it runs, as a fraction; (ranks,).
        first: Number of the first step.
        present: Ranks that are recorded; all by default.
    """
    work_ns = np.asarray(work_ns, dtype=np.int64)
    ranks = len(work_ns)
    pair_ns = np.full_like(work_ns, PAIR_NS) if pair_ns is None else np.asarray(pair_ns)
    gathered = np.maximum(work_ns[0::2], work_ns[1::2]).repeat(2, axis=0) + pair_ns
    step_ns = gathered.max(axis=0) + MOVES_NS
    begin = np.concatenate([[0], np.cumsum(step_ns)[:-1]])
    starts = np.stack([begin + work_ns, begin + gathered], axis=2).reshape(ranks, -1)
    ends = np.stack([begin + gathered, np.tile(begin + step_ns, (ranks, 1))], axis=2)
    ends = ends.reshape(ranks, -1)
    offset_ns = np.zeros(ranks, dtype=np.int64) if offset_ns is None else offset_ns
    drift = np.zeros(ranks) if drift is None else drift
    shown = [_on_clock(times, offset_ns, drift) for times in (starts, ends)]
    numbers = range(ranks) if present is None else present
    found = []
    for rank in numbers:
        collectives = _collectives(roles_of(rank, ranks), shown[0][rank], shown[1][rank], first)
        found.append(_rank(rank, work_ns[rank], step_ns, collectives))
    return found


def _on_clock(times, offset_ns, drift):
    shown = np.round(times * (1 + np.asarray(drift)[:, None])).astype(np.int64)
    return shown + np.asarray(offset_ns)[:, None]


def _collectives(roles, starts, ends, first):
    steps = np.arange(first, first + len(starts) // 2)
    return Collectives(
        roles=roles,
        role=np.tile([0, 1], len(steps)),
        step=np.repeat(steps, 2),
        start_ns=starts,
        dur_ns=ends - starts,
        bytes=np.tile([50_000_000, 500_000_000], len(steps)),
        steps=steps,
        numbering="marker",
    )


def _rank(number, work_ns, step_ns, collectives):
    per_step = np.zeros((len(work_ns), len(CATEGORIES)), dtype=np.int64)
    per_step[:, CATEGORIES.index("compute")] = work_ns
    per_step[:, CATEGORIES.index("communication")] = step_ns - work_ns
    means = per_step.mean(axis=0).round().astype(int).tolist()
    return Rank(
        number=number,
        stage=NULL,
        breakdown=dict(zip(CATEGORIES, means, strict=True)),
        own_ns=work_ns,
        collectives=collectives,
        per_step=per_step,
    )
