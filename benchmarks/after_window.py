"""Whether steps stay slower after a window of PyTorch's own profiler, without stepwhy.

    python benchmarks/after_window.py [--turns N] [--layers N] [--steps N]

A process takes short steps on one thread, opens a window of `torch.profiler` over five of them, and
takes as many steps again. Compared are the lower quartiles of both halves, which other programs on
the machine hardly change. A process without a window shows how much the halves differ anyway, and
in a third one the C library gives back free memory after the window, which tidies its heap.
"""

import argparse
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from stepwhy.analyse.steps.overhead import median_interval

KINDS = {
    "none": "no window",
    "window": "a window",
    "trimmed": "a window, then malloc_trim",
}
WINDOW_STEPS = 5
BLOCKS = 3  # of steps in each half, of which the fastest counts


def measure(kind, layers, steps):
    """Lower quartile of the steps before and after, us."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    parts = (m for _ in range(layers) for m in (torch.nn.Linear(64, 64), torch.nn.Tanh()))
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(32, 64)

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    def block():
        times = []
        for _ in range(steps):
            start = time.perf_counter_ns()
            step()
            times.append(time.perf_counter_ns() - start)
        return sorted(times)[steps // 4] / 1000

    block()
    before = min(block() for _ in range(BLOCKS))
    if kind != "none":
        plan = schedule(wait=0, warmup=1, active=WINDOW_STEPS - 1)
        with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
            for _ in range(WINDOW_STEPS):
                step()
                profiler.step()
        del profiler
        gc.collect()
    if kind == "trimmed":
        ctypes.CDLL(None).malloc_trim(0)
    return before, min(block() for _ in range(BLOCKS))


def run(kind, layers, steps):
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--kind", kind]
    command += ["--layers", str(layers), "--steps", str(steps)]
    quiet = os.environ | {"KINETO_LOG_LEVEL": "99"}
    done = subprocess.run(command, env=quiet, capture_output=True, check=True, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=8, help="processes of each kind")
    parser.add_argument("--layers", type=int, default=16, help="of the network")
    parser.add_argument("--steps", type=int, default=400, help="in a block")
    parser.add_argument("--kind", choices=KINDS, help="measure one process, and print its times")
    arguments = parser.parse_args()
    if arguments.kind:
        print(json.dumps(measure(arguments.kind, arguments.layers, arguments.steps)))
        return
    shares = {kind: [] for kind in KINDS}
    steps_us = []
    for _ in range(arguments.turns):
        for kind, found in shares.items():
            before, after = run(kind, arguments.layers, arguments.steps)
            found.append(100 * (after / before - 1))
            steps_us.append(before)
    print(f"steps of {statistics.median(steps_us):.0f} us, load {os.getloadavg()[0]:.1f}")
    for kind, found in shares.items():
        interval = median_interval(found)
        between = f" ({interval[0]:+.2f} to {interval[1]:+.2f})" if interval else ""
        print(f"{KINDS[kind]:28} {statistics.median(found):+6.2f} %{between}", flush=True)
        print("   ", " ".join(f"{share:+.2f}" for share in found))


if __name__ == "__main__":
    main()
