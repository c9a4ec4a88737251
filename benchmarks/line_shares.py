"""How well `stepwhy run` divides a step among the lines of a program.

    python benchmarks/line_shares.py [--turns N] [--only NAME]... [--json FILE]

Ten programs for PyTorch, in `programs/lines`, name their lines in comments such as `# @encoder`.
A copy of each runs under `stepwhy run`. It notes when each named line begins and ends, and hooks of
its tensors note when the backward pass reaches it, so that a line has its forward and its backward
time. These times are added up over steps in which stepwhy records nothing, after the traced ones
and those whose lines are noted. Compared are the shares of the time in named lines, in percentage
points, in the median of the turns. The bound is 3 points for the worst line of a program.

Two processes would not do: the same program spends its time differently in each, by more than the
bound, because memory is laid out anew.

`loss_loop` misses the bound in most runs: while PyTorch's profiler records, the backward pass gets
new pages for its gradients, which other steps do not.
"""

import argparse
import inspect
import json
import os
import re
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
FREE_STEPS = 60  # from here on, stepwhy records nothing
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}  # threads of busy cores wait for each other
LAST = ("optimizer", "maker_step")  # what ends a step


class Clock:
    """Whose time it is: that of the line that runs, or that the backward pass has reached."""

    def __init__(self):
        self.times, self.owner, self.outer, self.row = {}, "", [], None
        self.steps, self.last_ns = 0, time.perf_counter_ns()

    def switch(self, owner):
        now_ns = time.perf_counter_ns()
        self.times[self.owner] = self.times.get(self.owner, 0) + now_ns - self.last_ns
        self.owner, self.last_ns = owner, now_ns

    def begin(self, name):
        if name == "backward" and self.row is not None:
            self.row.register_hook(lambda _: self.switch("rows"))
            self.row = None
        self.outer.append(self.owner)
        # The backward pass is its own line's until it reaches the loss, whose hook says so.
        self.switch(name)

    def end(self, name, made=None):
        self.switch(self.outer.pop())
        if getattr(made, "requires_grad", False):
            if (
                name == "rows"
            ):  # hundreds of tensors, of which the backward pass reaches the last first
                self.row = made
            else:
                made.register_hook(lambda _: self.switch(name))
        if name in LAST:
            self.steps += 1
            if self.steps == FREE_STEPS:
                self.times = {}

    def print_shares(self):
        named_ns = sum(ns for name, ns in self.times.items() if name)
        print(json.dumps({name: ns / named_ns for name, ns in self.times.items() if name}))


CLOCK = f"""import json, time

FREE_STEPS, LAST = {FREE_STEPS}, {LAST}


{inspect.getsource(Clock)}"""


def with_clock(source, packages):
    """The program with calls of the clock around each named line, which keep their marks.

    Args:
        source: The program.
        packages: The folder that holds the clock.
    """
    lines = [
        f"import atexit, sys; sys.path.insert(0, {str(packages)!r})",
        "import shares_clock; _clock = shares_clock.Clock()",
        "atexit.register(_clock.print_shares)",
    ]
    for line in source.splitlines():
        named = NAMED.match(line)
        if named is None:
            lines.append(line)
            continue
        indent, target, name = named["indent"], named["target"], named["name"]
        lines.append(f"{indent}_clock.begin({name!r})")
        if named["returns"]:
            target = "_made"
            lines.append(f"{indent}_made = {named['rest']}  # @{name}")
        else:
            lines.append(line)
        lines.append(f"{indent}_clock.end({name!r}{f', {target}' if target else ''})")
        if named["returns"]:
            lines.append(f"{indent}return _made")
    return "\n".join(lines)


def shares(path, folder):
    """Shares by the clock, those that stepwhy reports, and what it credits to no line.

    Args:
        path: The program.
        folder: Receives the copy and its run directory.
    """
    copy = Path(folder) / path.name
    packages = copy.parent / "site-packages"  # so that the clock is no code of the program
    packages.mkdir(exist_ok=True)
    copy.write_text(with_clock(path.read_text(), packages))
    (packages / "shares_clock.py").write_text(CLOCK)
    out = copy.with_name(f"{path.stem}-{time.monotonic_ns()}")
    true = json.loads(stepwhy("run", "--quiet", "--out", out, "--", sys.executable, copy))
    last = max(step for step, is_free in enumerate(free_steps(out)) if not is_free)
    if last >= FREE_STEPS:
        sys.exit(f"{path.name}: stepwhy recorded step {last}, after the clock had begun")
    lines = json.loads(stepwhy("explain", out, "--json"))["lines"]
    found = named_times(copy, lines["lines"])
    whole_ns = sum(found.values())
    unknown_ns = sum(row["time_ns"] for row in lines["lines"] if row["kind"] == "uncredited")
    found = {name: ns / whole_ns for name, ns in found.items()}
    return true, found, unknown_ns / lines["wall_ns"]


def stepwhy(*arguments):
    """What a command prints."""
    command = [sys.executable, "-m", "stepwhy", *arguments]
    return subprocess.run(command, capture_output=True, check=True, env=ONE_THREAD).stdout


def free_steps(run):
    """Whether stepwhy recorded nothing, for each step of a run."""
    (log,) = run.glob("process-*/steps.jsonl")
    steps = (json.loads(line) for line in log.read_text().splitlines())
    return [not step.get("profiled") for step in steps if step["kind"] == "step"]


def named_times(path, rows):
    """Time of each named line of a program, ns.

    Args:
        path: The program.
        rows: The lines of its report.
    """
    marked = enumerate(map(NAMED.match, path.read_text().splitlines()), 1)
    names = {number: named["name"] for number, named in marked if named}
    times = dict.fromkeys(names.values(), 0)
    for row in rows:
        place = re.match(rf"{re.escape(path.name)}\((\d+)\)", row["line"])
        if place and int(place[1]) in names:
            times[names[int(place[1])]] += row["time_ns"]
    return times


def compare(path, turns, folder):
    """Median shares of each line, and the median of their differences, in percent."""
    runs = [shares(path, folder) for _ in range(turns)]
    rows = {}
    for name in runs[0][1]:
        pairs = [(true.get(name, 0.0), found[name]) for true, found, _ in runs]
        columns = (*zip(*pairs, strict=True), [found - true for true, found in pairs])
        middle = [round(100 * statistics.median(column), 2) for column in columns]
        rows[name] = dict(zip(("true", "found", "off"), middle, strict=True))
    return rows, max(unknown for *_, unknown in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="runs of each program")
    parser.add_argument("--only", action="append", help="a program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(PROGRAMS.glob("*.py")):
            if arguments.only and path.stem not in arguments.only:
                continue
            rows, unknown = compare(path, arguments.turns, folder)
            worst = max(rows.values(), key=lambda row: abs(row["off"]))
            load = round(os.getloadavg()[0], 1)
            about = {"worst": worst["off"], "uncredited": round(100 * unknown, 2), "load": load}
            results[path.stem] = {"lines": rows, **about}
            print(
                f"{path.stem:14} worst {worst['off']:+6.2f} points  "
                f"no line {about['uncredited']:.2f} %  load {load}",
                flush=True,
            )
            for name, row in rows.items():
                print(f"    {name:12} {row['true']:6.2f} % {row['found']:6.2f} %", flush=True)
    within = sum(abs(result["worst"]) <= BOUND for result in results.values())
    print(f"{within} of {len(results)} programs within {BOUND:g} points")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
