"""What the steps cost that stepwhy looks at one by one: for lines, for operations, for gradients.

    python benchmarks/single_steps.py [--repeats N] [--json FILE]

Plain and observed code run in turns, and medians are compared:

- the line clock: time per mark, and per call of a library, which is no mark
- the semantic step: time per operation, and the step against a plain one, with few large operations
  and with many small ones
- the walk over the gradients: time per node
- a whole run: what these steps take longer than usual ones, as a share of its loop

Bounds: 1 µs per mark, 100 µs per operation.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

import torch

from stepwhy.record.torch.gradient_walk import GradientWalk
from stepwhy.record.torch.semantic_mode import StepNotes, make_mode
from stepwhy.record.windows.line_clock import LineClock

PROGRAMS = Path(__file__).parent / "programs"
MARK_BOUND_US, OPERATION_BOUND_US = 1, 100
ROUNDS = 20_000
LINES = """
def lines(rounds):
    total = 0
    for number in range(rounds):
        total += number
        total -= 1
    return total

def calls(rounds, library):
    return sum(map(library, range(rounds)))
"""
LIBRARY = "def library(number): return number"
WIDTHS = {"large operations": (8, 1024, 256), "small operations": (60, 8, 4)}
"""Layers, their width, and rows of a batch."""
RUN_LAYERS, RUN_STEPS = 4, 4000


def compiled(source, path):
    """The functions of a module that has a file of this name."""
    space = {}
    exec(compile(source, path, "exec"), space)  # noqa: S102
    return space


def timed(function):
    """How long a call takes, s."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turns(plain, observed, repeats):
    """Medians of both, and of their ratio."""
    pairs = [(timed(plain), timed(observed)) for _ in range(repeats + 1)][1:]
    ratio = statistics.median(b / a for a, b in pairs)
    return *(statistics.median(column) for column in zip(*pairs, strict=True)), ratio


def clock_costs(repeats):
    """Time of a mark, and by how much the clock lengthens a call of a library, µs."""
    program = compiled(LINES, "/program/train.py")
    library = compiled(LIBRARY, f"{sys.prefix}/lib/python3/site-packages/library.py")["library"]
    found = {}
    for name, call in {
        "mark": lambda: program["lines"](ROUNDS),
        "library call": lambda: program["calls"](ROUNDS, library),
    }.items():
        marks = []

        def observed(call=call, marks=marks):
            clock = LineClock()
            clock.start(10**12)
            call()
            clock.stop()
            marks.append(len(clock.times))

        plain_s, observed_s, ratio = in_turns(call, observed, repeats)
        count = marks[-1] if name == "mark" else ROUNDS
        found[name] = {"us": 1e6 * (observed_s - plain_s) / count, "ratio": ratio}
    return found


def network(layers, width, rows):
    """A training step, and the optimizer."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    optimizer, batch = torch.optim.SGD(model.parameters(), 1e-3), torch.randn(rows, width)

    def step():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, optimizer


def semantic_costs(repeats):
    """Time that is added to each operation, µs, and by how much a step is longer."""
    found = {}
    for name, sizes in WIDTHS.items():
        step, optimizer = network(*sizes)
        state = [p for group in optimizer.param_groups for p in group["params"]]
        counts = []

        def observed(step=step, state=state, counts=counts):
            notes = StepNotes(state)
            with make_mode(notes):
                step()
            counts.append(len(notes.ops))

        plain_s, observed_s, ratio = in_turns(step, observed, repeats)
        each_us = 1e6 * (observed_s - plain_s) / counts[-1]
        found[name] = {"us": each_us, "ratio": ratio, "operations": counts[-1]}
    return found


def walk_costs(repeats):
    """Time of a node of the graph, µs."""

    class Log:
        def event(self, *_, count=None, **__):
            counts.append(count)

    counts = []
    step, optimizer = network(*WIDTHS["small operations"])
    walk = GradientWalk(Log())
    walk.know(optimizer)
    loss = torch.nn.Parameter(torch.zeros(1)) * 0 + step().detach()
    for parameter in optimizer.param_groups[0]["params"]:
        loss = loss + parameter.sum()
    walk_s = statistics.median(timed(lambda: walk.walk(loss)) for _ in range(repeats))
    return {"us": 1e6 * walk_s / counts[-1], "nodes": counts[-1]}


def run_costs(repeats):
    """What these steps add to a run: as a share of its loop, and ms; medians."""
    added, shares = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            program = [str(PROGRAMS / "torch_loop.py"), str(RUN_LAYERS), str(RUN_STEPS)]
            command = [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(out)]
            subprocess.run([*command, *program], capture_output=True, check=True)
            steps = steps_of(out)
        usual = statistics.median(length for length, profiled in steps if not profiled)
        groups = [list(group) for profiled, group in groupby(steps, lambda s: s[1]) if profiled]
        # The first ones are the traced window.
        longer = sum(length - usual for group in groups[1:] for length, _ in group)
        added.append(longer / 1e6)
        shares.append(longer / sum(length for length, _ in steps))
    return {"ms": statistics.median(added), "share": statistics.median(shares)}


def steps_of(out):
    """Length in ns of each step, and whether stepwhy looked at it."""
    logs = sorted(out.glob("process-*/steps*.jsonl"))
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    lines.sort(key=lambda line: line["start_ns"])
    return [(line["end_ns"] - line["start_ns"], bool(line["profiled"])) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    result = {
        "line clock": clock_costs(arguments.repeats),
        "semantic step": semantic_costs(arguments.repeats),
        "walk over gradients": walk_costs(arguments.repeats),
        "run": run_costs(arguments.runs),
    }
    for name, figures in result["line clock"].items():
        print(f"line clock, {name:16} {figures['us']:7.2f} µs {figures['ratio']:6.2f} x")
    for name, figures in result["semantic step"].items():
        print(f"semantic step, {name:16} {figures['us']:7.1f} µs {figures['ratio']:6.2f} x")
    print(f"walk, node {result['walk over gradients']['us']:25.2f} µs")
    print(
        f"a run of {RUN_STEPS:,} steps {result['run']['ms']:16.1f} ms {result['run']['share']:.2%}"
    )
    mark_us = result["line clock"]["mark"]["us"]
    # What is added to large operations is less than what they vary by.
    operation_us = result["semantic step"]["small operations"]["us"]
    kept = mark_us <= MARK_BOUND_US and operation_us <= OPERATION_BOUND_US
    print("bounds: kept" if kept else "bounds: MISSED")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
