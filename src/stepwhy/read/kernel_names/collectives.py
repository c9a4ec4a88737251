"""What collectives do, by the names that libraries give to them, their kernels and their ranges."""

from __future__ import annotations

from functools import lru_cache

from stepwhy.base.patterns import regex

ENDS_TOGETHER = frozenset({"all-reduce", "all-gather", "reduce-scatter", "barrier"})
"""No rank can finish before the last one has arrived, and then all of them finish together: the
result on every rank depends on every other."""

ALL_TO_ALL = "all-to-all"
"""No rank finishes before the last one has arrived either, but each has its own bytes to move."""

_SEND = "send and receive"
_NS_PER_S = 1_000_000_000

# The first match wins. Sources: kernels of NCCL, src/device/generate.py (ncclDevKernel_AllReduce_*)
# and of its versions before 2.19 (ncclKernel_*); operations and ranges of PyTorch,
# c10d/ProcessGroupNCCL.cpp (nccl:all_reduce, allreduce_coalesced, _allgather_base) and
# c10d/ProcessGroupGloo.cpp; XLA, HLO opcodes; CANN, hcom_allReduce_.
_OPERATIONS = (
    ("all-reduce", regex(r"all_?-?reduce|crossreplicasum")),
    ("all-gather", regex(r"all_?-?gather")),
    ("reduce-scatter", regex(r"reduce_?-?scatter")),
    (ALL_TO_ALL, regex(r"all_?-?to_?-?all|all2all")),
    (_SEND, regex(r"send_?recv|batch_isend|p2p|collective-permute|(?:^|[:_-])(?:i?send|i?recv)")),
    ("barrier", regex(r"barrier")),
    ("broadcast", regex(r"broadcast")),
    ("gather", regex(r"gather")),
    ("scatter", regex(r"scatter")),
    ("reduce", regex(r"reduce")),
)


@lru_cache(maxsize=1 << 14)
def collective_of(name: str) -> str:
    """What a collective does, such as 'all-reduce'; '' if its name does not tell."""
    lower = name.lower()
    return next((operation for operation, names in _OPERATIONS if names.search(lower)), "")


def bus_bandwidth(operation: str, ranks: int, size: int | None, time_ns: int) -> int | None:
    """Bytes per second over each link while data moves; None if unknown.

    Source: doc/PERFORMANCE.md of nccl-tests, which calls it 'bus bandwidth'. The size is that of
    the largest buffer: what an all-gather returns, what a reduce-scatter reads.

    Args:
        operation: What `collective_of` returns.
        ranks: Number of ranks in the group.
        size: Bytes of the message; None if unknown.
        time_ns: Time in which it moves.
    """
    if ranks < 1 or size is None or time_ns <= 0:
        return None
    share = (ranks - 1) / ranks
    factors = {"all-reduce": 2 * share, "broadcast": 1.0, "reduce": 1.0, _SEND: 1.0}
    factors |= dict.fromkeys(("all-gather", "reduce-scatter", ALL_TO_ALL), share)
    factor = factors.get(operation)
    return None if factor is None else round(factor * size * _NS_PER_S / time_ns)
