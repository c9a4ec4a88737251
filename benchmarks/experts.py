"""Whether stepwhy agrees with an expert's reading of recorded traces.

    python benchmarks/experts.py FOLDER... [--write JSON]

Each FOLDER holds traces and a FACTS.json, in which `expert.primary` of a file names the main cause.
stepwhy agrees if what bounds the step, or the first finding, is one of those that the cause allows.
Files that it refuses, because they are no traces, do not count. The files are divided into two
halves, every other one by name, so that thresholds chosen on one half can be judged by the other.
Prints the files on which it disagrees, and the share of agreement of each half.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from stepwhy import __version__

# The cause that an expert names -> what bounds the step, or the first finding. '' is no finding.
ALLOWED = {
    "host_bound": {"host"},
    "host_bound_or_balanced": {"host", "compute"},
    "host_blocked_sync": {"host", "host-sync"},
    "launch_bound_small": {"host", "launch-bound"},
    "input_pipeline": {"input", "queue-starvation"},
    "host_preprocessing": {"input"},
    "communication": {"communication"},
    "communication_wait": {"communication", "straggler", "start-skew"},
    "pipeline_bubble": {"pipeline-bubble", "stage-imbalance", "communication"},
    "gpu_compute": {"compute"},
    "gpu_compute_with_host_gaps": {"compute"},
    "other_accelerator": {"compute"},
    "cpu_compute": {"compute"},
    "startup": {"startup", "warmup-included"},
    "warmup_dominates": {"startup", "warmup-included"},
    "cannot_tell": {"unknown"},
    "cannot_tell_sliced": {"unknown"},
    "cannot_tell_partial_capture": {"unknown"},
    "no_gpu_events": {"unknown"},
    "no_events": {"unknown"},
    "tiny": {"unknown", "host"},
}


def judged(path, primary):
    """What stepwhy says of one file, and whether the cause allows it; None if it is refused."""
    command = [sys.executable, "-m", "stepwhy", "explain", "--json", str(path)]
    done = subprocess.run(command, check=False, capture_output=True)
    if not done.stdout:
        return None
    result = json.loads(done.stdout)
    found = [f["id"] for f in result["findings"] if f["verdict"] == "found"]
    said = [result["verdict"]["bound_by"], *found[:1]]
    return {"expert": primary, "said": said, "agrees": bool(ALLOWED[primary] & set(said))}


def files_of(folder):
    """Files of a folder for which an expert named a cause that is known here."""
    facts = json.loads((folder / "FACTS.json").read_text(encoding="utf-8"))
    for name, fact in sorted(facts.items()):
        primary = fact.get("expert", {}).get("primary")
        if primary in ALLOWED and (folder / name).is_file():
            yield folder.name, name, folder / name, primary


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, metavar="JSON")
    options = parser.parse_args()
    files = [entry for folder in options.folders for entry in files_of(folder)]
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda entry: judged(entry[2], entry[3]), files))
    rows = [
        {"file": f"{folder}/{name}", **verdict}
        for (folder, name, *_), verdict in zip(files, verdicts, strict=True)
        if verdict is not None
    ]
    for row in rows:
        if not row["agrees"]:
            print(f"{row['file']}: expert {row['expert']}, stepwhy {', '.join(row['said'])}")
    halves = {half: rows[start::2] for half, start in (("first", 0), ("second", 1))}
    shares = {}
    for half, members in halves.items():
        agreed = sum(row["agrees"] for row in members)
        shares[half] = f"{agreed} of {len(members)}"
        print(f"{half} half: {shares[half]}")
    if options.write:
        about = {"date": datetime.now(UTC).date().isoformat(), "stepwhy": __version__}
        options.write.write_text(
            json.dumps(about | {"halves": shares, "files": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
