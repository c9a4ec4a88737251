"""Explain a run: read its files, compute facts, diagnose, predict, and combine its ranks.

In: paths. Out: a `Result`. `explain` is the whole way; `reduction` is the part of one rank, which
`executors` run in processes or on a cluster, and `merging` joins the parts in any order.
Imports: all rooms above but `api`, `apps` and `cli`.
"""

from stepwhy.engine.explain import explain

__all__ = ["explain"]
