"""How well `stepwhy run` divides a step among the lines of a program.

    python benchmarks/line_shares.py [--turns N] [--only NAME]... [--json FILE]

Ten programs for PyTorch, in `programs/lines`, name their lines in comments such as `# @encoder`.
Each runs in turns under `stepwhy run`, and alone with a clock: a copy of the program notes when
each named line begins and ends, and hooks of its tensors note when the backward pass reaches it, so
that a line has its forward and its backward time. Compared are the shares of the step in the median
of the turns, in percentage points. The bound is 3 points for the worst line of a program.
"""

import argparse
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs" / "lines"
NAMED = re.compile(
    r"^(?P<indent> *)(?:(?P<target>\w+) = |(?P<returns>return ))?(?P<rest>.*)  # @(?P<name>\w+)$"
)
BOUND = 3.0  # percentage points
WARM_STEPS = 20
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}  # threads of busy cores wait for each other
LAST = ("optimizer", "maker_step")  # what ends a step


class Clock:
    """Whose time it is: that of the line that runs, or that the backward pass has reached."""

    def __init__(self):
        self.times, self.owner, self.outer, self.made = {}, "", [], ""
        self.steps, self.first_ns, self.last_ns = 0, 0, time.perf_counter_ns()

    def switch(self, owner):
        now_ns = time.perf_counter_ns()
        self.times[self.owner] = self.times.get(self.owner, 0) + now_ns - self.last_ns
        self.owner, self.last_ns = owner, now_ns

    def begin(self, name):
        self.outer.append(self.owner)
        # A backward pass begins in the line that made the loss.
        self.switch(self.made if name == "backward" else name)

    def end(self, name, made=None):
        self.switch(self.outer.pop())
        if getattr(made, "requires_grad", False):
            self.made = name
            if name != "rows":  # hundreds of tensors; the backward pass reaches them first
                made.register_hook(lambda _: self.switch(name))
        if name in LAST:
            self.steps += 1
            if self.steps == WARM_STEPS:
                self.times, self.first_ns = {}, self.last_ns


def with_clock(source):
    """The program with calls of the clock around each named line."""
    lines = []
    for line in source.splitlines():
        named = NAMED.match(line)
        if named is None:
            lines.append(line)
            continue
        indent, target, name = named["indent"], named["target"], named["name"]
        lines.append(f"{indent}_clock.begin({name!r})")
        if named["returns"]:
            target = "_made"
            lines.append(f"{indent}_made = {named['rest']}")
        else:
            lines.append(line)
        lines.append(f"{indent}_clock.end({name!r}{f', {target}' if target else ''})")
        if named["returns"]:
            lines.append(f"{indent}return _made")
    return "\n".join(lines)


def run_with_clock(path):
    """Run a program, and print the share of each named line."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(with_clock(path.read_text()))
        runpy.run_path(str(copy), {"_clock": clock}, "__main__")
    whole_ns = sum(clock.times.values())
    print(json.dumps({name: ns / whole_ns for name, ns in clock.times.items()}))


def true_shares(path):
    """Shares by the clock, in a process of its own."""
    command = [sys.executable, __file__, "--clock", str(path)]
    return json.loads(
        subprocess.run(command, capture_output=True, check=True, env=ONE_THREAD).stdout
    )


def found_shares(path, folder):
    """Shares that stepwhy reports, and that of what it credits to no line."""
    out = Path(folder) / f"{path.stem}-{time.monotonic_ns()}"
    stepwhy = [sys.executable, "-m", "stepwhy"]
    run = [*stepwhy, "run", "--quiet", "--out", out, "--", sys.executable, path]
    subprocess.run(run, check=True, capture_output=True, env=ONE_THREAD)
    explain = [*stepwhy, "explain", out, "--json"]
    lines = json.loads(
        subprocess.run(explain, check=True, capture_output=True, env=ONE_THREAD).stdout
    )["lines"]
    names = {
        number: named["name"]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (named := NAMED.match(line))
    }
    shares, whole_ns = dict.fromkeys(names.values(), 0.0), lines["wall_ns"]
    for row in lines["lines"]:
        place = re.match(rf"{re.escape(path.name)}\((\d+)\)", row["line"])
        name = names.get(int(place[1])) if place else None
        if name:
            shares[name] += row["time_ns"] / whole_ns
        elif row["kind"] == "unknown":
            shares["uncredited"] = row["time_ns"] / whole_ns
    return shares


def compare(path, turns, folder):
    """Median shares of each line, in percent."""
    true, found = [], []
    for turn in range(turns):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            if which:
                found.append(found_shares(path, folder))
            else:
                true.append(true_shares(path))
    rows = {}
    for name in found[0]:
        each = [
            round(100 * statistics.median(shares.get(name, 0.0) for shares in several), 2)
            for several in (true, found)
        ]
        rows[name] = {"true": each[0], "found": each[1], "off": round(each[1] - each[0], 2)}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="runs of each kind")
    parser.add_argument("--only", action="append", help="a program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    parser.add_argument("--clock", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clock:
        run_with_clock(arguments.clock)
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(PROGRAMS.glob("*.py")):
            if arguments.only and path.stem not in arguments.only:
                continue
            rows = compare(path, arguments.turns, folder)
            worst = max(rows.values(), key=lambda row: abs(row["off"]))
            load = round(os.getloadavg()[0], 1)
            results[path.stem] = {"lines": rows, "worst": worst["off"], "load": load}
            print(f"{path.stem:14} worst {worst['off']:+6.2f} points  load {load}", flush=True)
            for name, row in rows.items():
                print(f"    {name:12} {row['true']:6.2f} % {row['found']:6.2f} %", flush=True)
    within = sum(abs(result["worst"]) <= BOUND for result in results.values())
    print(f"{within} of {len(results)} programs within {BOUND:g} points")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
