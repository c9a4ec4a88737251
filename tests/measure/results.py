"""Results of artificial runs with known step times."""

from __future__ import annotations

import numpy as np

from stepwhy.result import Breakdown, HostLoad, Op, Result, Run, Steps, TraceTotals, Verdict

MS = 1_000_000


def host(background):
    return HostLoad(
        run_delay_share=0.0, background_cores=background, cores=2, peak_resident_bytes=None
    )


def op(name, self_ns, device="cpu:0"):
    return Op(name, device, "other", 1.0, self_ns, self_ns, None)


def result(durations, *, categories=None, ops=(), background=0.0, warm_up=1, command="train"):
    """A run with these step durations in ns; the first ones are warm-up."""
    durations = tuple(int(d) for d in durations)
    median = int(np.median(durations)) if durations else 0
    return Result(
        verdict=Verdict("unknown", 0.0, ""),
        inputs=(),
        run=Run("pytorch", "2.13.0", ("cpu",), 1, None, command),
        steps=Steps(
            count=len(durations), source="hook", confidence=1.0, median_ns=median,
            p10_ns=median, p90_ns=median, steady=len(durations) - warm_up, warm_up=warm_up,
            device_side=False, durations_ns=durations,
        ),
        breakdown=Breakdown(median, categories or {"compute": median}, {}),
        devices=(),
        trace=TraceTotals(0, ()),
        ops=tuple(ops),
        findings=(),
        host=host(background) if background is not None else None,
    )  # fmt: skip


def steady(step_ns, count=20):
    """Durations of a warm-up step and of steps of equal length."""
    return [10 * step_ns, *[step_ns] * count]
