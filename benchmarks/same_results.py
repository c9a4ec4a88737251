"""Whether this tree explains traces with the same numbers as another revision.

    python benchmarks/same_results.py REVISION [PATH]... [--large MEGABYTES] [--jobs N]
                                      [--without DIAGNOSIS]...

Runs `stepwhy explain --json --all` of both revisions on every trace file below the given paths
(default: STEPWHY_TRACES), and on each folder that holds several; with --large also on a generated
file of each format. Exit codes, numbers, identifiers and names must be equal. Sentences for people
may differ, and --without leaves out a diagnosis that is new or split. Prints the first differences
of each input, and exits with 1 when there are any.

The other revision is checked out into a temporary folder, and runs with the same packages.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Values that are written for people.
PROSE = frozenset(
    {"title", "sentence", "text", "code", "help", "what", "edit", "reason", "note", "notes"}
    | {"untraced_advice", "stepwhy", "path", "command"}
)
# Files that lie beside traces and are none.
NO_TRACES = frozenset({".md", ".LICENSE"})
SHOWN = 8


def inputs_below(path):
    """The trace files below a path, and the folders that hold several."""
    if path.is_file():
        return [path]
    files = [f for f in sorted(path.rglob("*")) if f.is_file() and f.suffix not in NO_TRACES]
    folders = sorted({f.parent for f in files})
    return files + [f for f in folders if sum(file.parent == f for file in files) > 1]


def explained(source, cache, path):
    """Exit code and the JSON that one revision prints for an input."""
    environment = os.environ | {"PYTHONPATH": str(source), "STEPWHY_CACHE": str(cache)}
    command = [sys.executable, "-m", "stepwhy", "explain", "--json", "--all", str(path)]
    done = subprocess.run(command, check=False, env=environment, cwd=cache, capture_output=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def leaves(value, at=""):
    """Each value of a document with its place, without what is written for people."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in PROSE:
                yield from leaves(inner, f"{at}.{key}")
    elif isinstance(value, list):
        yield f"{at}.length", len(value)
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{at}[{label(inner, index)}]")
    else:
        yield at, value


def label(value, index):
    """How to name a row of a list: findings by their id, others by their number."""
    return value["id"] if isinstance(value, dict) and "id" in value else index


def differences(before, after):
    """Lines that say what differs between two results."""
    if before[0] != after[0]:
        yield f"exit code: {before[0]} before, {after[0]} now"
    old, new = dict(leaves(before[1])), dict(leaves(after[1]))
    for place in [*old, *(p for p in new if p not in old)]:
        if old.get(place) != new.get(place):
            yield f"{place}: {old.get(place, 'absent')} before, {new.get(place, 'absent')} now"


def compare(path, sources, caches, without):
    """What differs for an input, as lines."""
    results = [explained(*pair, path) for pair in zip(sources, caches, strict=True)]
    for _, result in results:
        if result and "findings" in result:
            result["findings"] = [f for f in result["findings"] if f["id"] not in without]
    return list(differences(*results))


def generated(folder, megabytes):
    """A large file of each format."""
    script = [sys.executable, str(ROOT / "benchmarks" / "large_files.py")]
    suffixes = json.loads(subprocess.run(script, check=True, capture_output=True).stdout)
    for name, suffix in suffixes.items():
        path = folder / f"{name}{suffix}"
        command = [*script, name, str(megabytes), str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield path


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("revision")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--large", type=int, default=0, metavar="MEGABYTES")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], metavar="DIAGNOSIS")
    arguments = parser.parse_args()
    if not (arguments.paths or arguments.large or os.environ.get("STEPWHY_TRACES")):
        parser.error("name a path, or set STEPWHY_TRACES")
    recorded = [Path(p) for p in [os.environ.get("STEPWHY_TRACES")] if p]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", folder / "tree", arguments.revision], check=True
        )
        try:
            differing = run(arguments, folder, arguments.paths or recorded)
        finally:
            subprocess.run([*git, "remove", "--force", folder / "tree"], check=True)
    return int(differing > 0)


def run(arguments, folder, paths):
    """Compare all inputs; how many differ."""
    inputs = [found.resolve() for path in paths for found in inputs_below(path)]
    if arguments.large:
        inputs += generated(folder, arguments.large)
    sources = folder / "tree" / "src", ROOT / "src"
    caches = folder / "before", folder / "now"
    for cache in caches:
        cache.mkdir()
    differing = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = pool.map(
            partial(compare, sources=sources, caches=caches, without=arguments.without), inputs
        )
        for path, lines in zip(inputs, found, strict=True):
            differing += bool(lines)
            for line in lines[:SHOWN]:
                print(f"{path.parent.name}/{path.name}: {line}", flush=True)
            if len(lines) > SHOWN:
                print(f"{path.parent.name}/{path.name}: and {len(lines) - SHOWN} more", flush=True)
    print(f"{len(inputs)} inputs, {differing} differ from {arguments.revision}")
    return differing


if __name__ == "__main__":
    sys.exit(main())
