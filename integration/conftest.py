"""Training programs with the real libraries, each in a process and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# No library may use the network, or write outside of the folder.
_ENVIRONMENT = {
    "DO_NOT_TRACK": "true",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # a database needs more than the skinny package
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}
_REMOVED = ("STEPWHY_RUN_DIR", "RANK", "WORLD_SIZE", "TF_CONFIG")


class Ended(NamedTuple):
    """A program that has ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if name not in _REMOVED}
    folders = {"MLFLOW_TRACKING_URI": f"file:{tmp_path}/mlruns", "WANDB_DIR": str(tmp_path)}
    return {**kept, **_ENVIRONMENT, **folders}


@pytest.fixture
def run(tmp_path, environment):
    """Run a program; words before it make it part of a command, such as `stepwhy run`."""

    def start(code, *words, **variables) -> Ended:
        (tmp_path / "train.py").write_text(textwrap.dedent(code), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, *words, "train.py"],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return start


@pytest.fixture
def last(run):
    """Run a program that must succeed; its last line of output as JSON."""

    def start(code, *words, **variables):
        ended = run(code, *words, **variables)
        assert ended.code == 0, ended.err
        return json.loads(ended.out.splitlines()[-1])

    return start


@pytest.fixture
def steps_of():
    """The logged steps of a run directory."""

    def read(run_dir: Path):
        logs = run_dir.glob("process-*/steps.jsonl")
        lines = (json.loads(line) for log in logs for line in log.read_text().splitlines())
        return [line for line in lines if line["kind"] == "step"]

    return read


@pytest.fixture
def counted():
    """How many steps a result counts: those that ran without a profiler."""
    return lambda steps: sum(not step["profiled"] for step in steps)


@pytest.fixture
def pauses():
    """After which steps nothing was a step for a while, such as a validation."""

    def find(steps, least_ns=1_000_000):
        pairs = enumerate(pairwise(steps))
        return [i for i, (a, b) in pairs if b["start_ns"] - a["end_ns"] > least_ns]

    return find
