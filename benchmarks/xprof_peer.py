"""How long stepwhy and XProf's overview page take for XPlane profiles, and how much memory.

    python -m venv xprof && xprof/bin/pip install xprof
    python benchmarks/xprof_peer.py xprof/bin/python [--megabytes 10 100] [--folder FOLDER]
                                    [--repeats N] [--json FILE] [PROFILE...]

Whole processes are measured, in turns, on profiles that are given, or on generated ones of some
sizes, which --folder keeps. Medians, peak memory and their ratios to stepwhy are printed. Both
programs say how many steps there are, how long these take and how long the device computes in them;
where that differs by more than a tenth, it is printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from beside import PEERS, package
from measuring import TITLE, in_turns, line, medians, read_ahead, with_ratios

ALIKE = 0.1


def profiles(folder, megabytes):
    """Generated profiles, each written by a process of its own so that this one stays small."""
    generator = str(Path(__file__).with_name("generated_xplane.py"))
    for size in megabytes:
        path = folder / f"x{size:g}.xplane.pb"
        if not path.exists():
            part = f"{path}.{os.getpid()}.part"
            subprocess.run([sys.executable, generator, part, str(size)], check=True)
            Path(part).replace(path)
        yield path


def said_by_stepwhy(output):
    """Steps, their mean time and the mean computing time of the device that computes most."""
    result = json.loads(output)
    return {
        "steps": result["steps"]["count"],
        "step_ns": round(statistics.fmean(result["steps"]["durations_ns"])),
        "compute_ns": max((d["compute_ns"] for d in result["devices"]), default=0),
    }


def compared(profile, commands, repeats):
    """Costs and answers of both, for JSON."""
    read_ahead(profile)
    runs = in_turns({n: [*command, str(profile)] for n, command in commands.items()}, repeats)
    found = with_ratios({name: medians(of_one) for name, of_one in runs.items()}, "stepwhy")
    for name, of_one in found.items():
        if "failed" not in of_one:
            output = runs[name][-1].output
            own = name == "stepwhy"
            of_one["says"] = said_by_stepwhy(output) if own else json.loads(output.splitlines()[-1])
    return {"bytes": profile.stat().st_size, "programs": found}


def report(found):
    """Print one profile's table."""
    print(f"\n{found['bytes'] / 1e6:,.0f} MB")
    print(f"{TITLE}     steps")
    for name, of_one in found["programs"].items():
        print(line(name, of_one), told(of_one.get("says")))
    answers = [of_one["says"] for of_one in found["programs"].values() if "says" in of_one]
    for key, value in answers[0].items() if len(answers) > 1 else ():
        if abs(value - answers[1][key]) > ALIKE * max(value, answers[1][key]):
            print(f"    they differ in {key}")


def told(said):
    """What a program says, for people."""
    if said is None:
        return ""
    step_ms, compute_ms = said["step_ns"] / 1e6, said["compute_ns"] / 1e6
    return f"{said['steps']} of {step_ms:.3f} ms, computing {compute_ms:.3f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("xprof", metavar="PYTHON", help="Python that has xprof")
    parser.add_argument("profiles", nargs="*", type=Path, metavar="PROFILE")
    parser.add_argument("--megabytes", type=float, nargs="*", default=[10, 100])
    parser.add_argument("--folder", type=Path, help="where generated profiles are kept")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    commands = {
        "stepwhy": [sys.executable, "-m", "stepwhy", "explain", "--json"],
        "XProf overview": [arguments.xprof, str(PEERS / "xprof_overview.py")],
    }
    document = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "versions": {
            "stepwhy": package(sys.executable, "stepwhy"),
            "xprof": package(arguments.xprof, "xprof"),
        },
        "profiles": [],
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for profile in arguments.profiles or profiles(folder, arguments.megabytes):
            document["profiles"].append(compared(profile, commands, arguments.repeats))
            report(document["profiles"][-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
