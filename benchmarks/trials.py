"""Try the fixes of lab pairs at run time, on the unmodified programs and on their fixed twins.

    python benchmarks/trials.py [PAIR ...] [--budget SECONDS] [--out FILE] [--faulty-only]

For each pair, `stepwhy try` measures the gain of the fix in the faulty program, which is put beside
what the lab measured for the fixed program (`lab/accuracy.json`), and in the fixed twin, which must
not show a gain. The result file is written after each pair.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import fmean

import click

from stepwhy.cli.lab_accuracy import stored_accuracy
from stepwhy.cli.lab_pairs import pairs
from stepwhy.predict.ledger import LEDGER

TRIED = {
    "torch/serial_loader": "loader-workers",
    "torch/distance_map": "constant-batch",
    "torch/respawn": "persistent-workers",
    "torch/loop_optimizer": "fused-optimizer",
    "torch/anomaly_detection": "anomaly-detection-off",
    "torch/summaries": "summaries-rarely=200",
    "torch/oversubscribed": "torch-threads",
    "torch/gc_pauses": "gc-rarely",
    "torch/own_profiler": "own-profiler-off",
    "torch/fresh_memory": "keep-freed-memory",
    "torch/ddp_accumulation": "no-sync",
    "torch/recompilation": "compile-dynamic",
    "torch/cold_files": "loader-workers=2",
    "tf2/serial_map": "parallel-map",
    "tf2/no_prefetch": "data-prefetch",
    "tf2/uncached": "data-cache",
    "tf2/numpy_map": "constant-batch",
    "tf2/keras_eager": "keras-compiled",
    "tf2/retracing": "reduce-retracing",
    "tf2/eager_loop": "tf-function=Trainer.train_step",
}
"""Pair -> the fix that is tried."""


def measured_in_lab(name: str) -> dict[str, float] | None:
    """Mean steps of the faulty and the fixed program as the lab measured them, in ns."""
    pair = next((one for one in stored_accuracy().pairs if one.name == name), None)
    if pair is None or not pair.fixed_steps_ns:
        return None
    return {"faulty": fmean(pair.faulty_steps_ns), "fixed": fmean(pair.fixed_steps_ns)}


def tried(words: list[str], fix: str, folder: Path, out: Path, budget: float) -> dict[str, object]:
    """The result of `stepwhy try`, without its runs."""
    command = [
        sys.executable, "-m", "stepwhy", "try", "--json", "--fix", fix, "--budget", str(budget),
        "--out", str(out), *words,
    ]  # fmt: skip
    # These trials are not the user's own.
    environment = {**os.environ, LEDGER: ""}
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    if not ended.stdout:
        return {"verdict": "failed", "reason": ended.stderr[-400:]}
    result = json.loads(ended.stdout)
    result["runs"] = len(result["runs"])
    result.pop("command")
    return result


def line(name: str, side: str, result: dict[str, object]) -> str:
    """One line of the table."""
    if result.get("gain_ns") is None:
        return f"{name:26} {side:6} {result['verdict']:11} {result.get('reason', '')}"
    ms = [f"{result[key] / 1e6:.2f}" for key in ("gain_ns", "low_ns", "high_ns", "step_ns")]
    return (
        f"{name:26} {side:6} {result['verdict']:11} {ms[0]} ({ms[1]} to {ms[2]}) of {ms[3]} ms, "
        f"{result['method']}, {result['pairs']} pairs, losses {result['losses']}"
    )


@click.command()
@click.argument("names", nargs=-1)
@click.option("--budget", default=180.0, show_default=True, help="Seconds per trial.")
@click.option("--out", default="trials.json", type=click.Path(path_type=Path), show_default=True)
@click.option("--faulty-only", is_flag=True, help="Leave out the fixed twins.")
def main(names: tuple[str, ...], budget: float, out: Path, *, faulty_only: bool) -> None:
    """Try the fixes, and write the results."""
    known = {pair.name: pair for pair in pairs()}
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or TRIED:
            pair = known[name]
            size = [str(word) for word in pair.sizes["small"]]
            entry: dict[str, object] = {"fix": TRIED[name], "lab": measured_in_lab(name)}
            sides = {"faulty": pair.faulty} if faulty_only else {
                "faulty": pair.faulty, "fixed": pair.fixed,
            }  # fmt: skip
            for side, words in sides.items():
                place = Path(folder) / f"{name.replace('/', '-')}-{side}"
                entry[side] = tried([*words, *size], TRIED[name], pair.folder, place, budget)
                print(line(name, side, entry[side]), flush=True)
            results[name] = entry
            record = {"date": f"{datetime.now().astimezone():%Y-%m-%d}", "trials": results}
            out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
