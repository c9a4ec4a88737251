"""How long stepwhy takes for an XPlane profile, and how much memory: whole processes.

    python benchmarks/xplane.py [--megabytes 10 100] [--json FILE] [PROFILE...]

Beside `stepwhy explain --json` on profiles of some sizes, generated unless given, with compiled
kernels and without, three yardsticks on the same file: a Python that reads its bytes, one that
parses it with protobuf and does nothing more, and one that also asks every parsed event for its
name and times, as a reader in Python must.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READ = "import sys; data = open(sys.argv[1], 'rb').read()"
PARSE = READ + (
    "\nfrom stepwhy.read.shared.tensorflow.messages import parse_message"
    "\nspace = parse_message('XSpace', data)"
)
LOOK = PARSE + (
    "\nfor plane in space.planes:"
    "\n    names = {e.key: e.value.name for e in plane.event_metadata}"
    "\n    for line in plane.lines:"
    "\n        rows = [(names.get(e.metadata_id), e.offset_ps, e.duration_ps) for e in line.events]"
)
PLAIN = "the same without kernels"
COUNT = PARSE + ("\nprint(sum(len(line.events) for plane in space.planes for line in plane.lines))")


def commands(profile):
    """The measured commands by name."""
    python = [sys.executable]
    return {
        "read the bytes": [*python, "-c", READ, profile],
        "protobuf alone": [*python, "-c", PARSE, profile],
        "protobuf, and look at events": [*python, "-c", LOOK, profile],
        "stepwhy explain --json": [*python, "-m", "stepwhy", "explain", "--json", profile],
        PLAIN: [*python, "-m", "stepwhy", "explain", "--json", profile],
    }


def measure(command, kernels):
    """Processor and wall time in seconds and peak memory in bytes of one run of a command."""
    start = time.perf_counter()
    environment = {**os.environ, "STEPWHY_NATIVE": kernels}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss * 1024


def best(name, command, repeats):
    """The run of some that took least processor time, with its wall time and peak memory."""
    kernels = "0" if name == PLAIN else "1"
    return min(measure(command, kernels) for _ in range(repeats))


def profiles(folder, megabytes):
    """Generated profiles, each written by a process of its own so that this one stays small."""
    generator = str(Path(__file__).with_name("generated_xplane.py"))
    for size in megabytes:
        path = str(Path(folder) / f"generated-{size:g}.xplane.pb")
        subprocess.run([sys.executable, generator, path, str(size)], check=True)
        yield path


def events_in(profile):
    """How many events a profile has."""
    answer = subprocess.run(
        [sys.executable, "-c", COUNT, profile], check=True, stdout=subprocess.PIPE
    )
    return int(answer.stdout)


def report(profile, repeats):
    """Measure and print one profile; returns the figures."""
    size, events = Path(profile).stat().st_size, events_in(profile)
    print(f"\n{Path(profile).name}: {size / 1e6:.1f} MB, {events:,} events")
    print(f"{'whole process':30} {'processor':>9} {'time':>9} {'peak memory':>12}")
    found = {}
    for name, command in commands(profile).items():
        cpu, seconds, peak = best(name, command, repeats)
        print(f"{name:30} {cpu:7.2f} s {seconds:7.2f} s {peak / 1e6:9.0f} MB")
        found[name] = {"cpu_seconds": cpu, "seconds": seconds, "peak_bytes": peak}
    return {"profile": Path(profile).name, "bytes": size, "events": events, "of": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profiles", nargs="*", metavar="PROFILE")
    parser.add_argument("--megabytes", type=float, nargs="*", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    subprocess.run([sys.executable, "-m", "stepwhy.base.columns.compile"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        files = arguments.profiles or profiles(folder, arguments.megabytes)
        results = [report(profile, arguments.repeats) for profile in files]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
