"""The command to start, and its default run directory."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stepwhy.record import command_for_script, default_run_dir
from stepwhy.record.launcher.command import of_rank, run_name


def test_a_script_runs_under_this_interpreter() -> None:
    assert command_for_script("a/train.py", ["--lr", "1"]) == [
        sys.executable,
        "a/train.py",
        "--lr",
        "1",
    ]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3.11", "a/train.py", "--lr", "1"], "train"),
        (["python", "-m", "pkg.train", "--lr", "1"], "pkg.train"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "torchrun"),
        (["python", "-u", "my train.py"], "my-train"),
        (["python"], "run"),
        ([], "run"),
    ],
)
def test_run_is_named_after_its_script(command: list[str], name: str) -> None:
    assert run_name(command) == name


def test_default_directory_has_time_and_name() -> None:
    now = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert default_run_dir(["python", "train.py"], now) == Path(
        "stepwhy-runs/20240203-040506-train"
    )


@pytest.mark.parametrize(
    ("environ", "folder", "rank"),
    [
        ({}, "out", 0),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "out", 0),
        ({"RANK": "3"}, "out", 0),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "out/rank-0", 0),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}, "out/rank-5", 5),
    ],
)
def test_each_rank_that_a_launcher_starts_has_its_own_directory(environ, folder, rank):
    assert of_rank(Path("out"), environ) == (Path(folder), rank)
