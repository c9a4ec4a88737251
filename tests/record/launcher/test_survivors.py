"""Processes that outlive the command."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.record.launcher.launch import survivors

if TYPE_CHECKING:
    import pytest


def process(proc: Path, pid: str, environ: bytes | None) -> None:
    (proc / pid).mkdir()
    if environ is not None:
        (proc / pid / "environ").write_bytes(environ)


def test_survivors_have_the_run_directory_in_their_environment(tmp_path: Path) -> None:
    process(tmp_path, "7", b"A=1\0STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, "8", b"STEPWHY_RUN_DIR=/runs/one-more\0")
    process(tmp_path, "9", b"MY_STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, "10", None)
    process(tmp_path, "self", b"STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, f"{os.getpid()}", b"STEPWHY_RUN_DIR=/runs/one\0")
    assert survivors(Path("/runs/one"), tmp_path, 0.05) == [7]


def test_system_without_proc_has_no_survivors(tmp_path: Path) -> None:
    assert survivors(Path("/runs/one"), tmp_path / "none") == []


def test_the_resource_tracker_of_multiprocessing_has_nothing_to_log(tmp_path: Path) -> None:
    process(tmp_path, "7", b"STEPWHY_RUN_DIR=/runs/one\0")
    tracker = b"python\0-c\0from multiprocessing.resource_tracker import main;main(4)\0"
    (tmp_path / "7" / "cmdline").write_bytes(tracker)
    assert survivors(Path("/runs/one"), tmp_path, 0.0) == []


def test_process_that_ends_soon_is_not_a_survivor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, "7", b"STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, "8", b"STEPWHY_RUN_DIR=/runs/one\0")
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        (tmp_path / "7" / "environ").unlink(missing_ok=True)

    monkeypatch.setattr(time, "sleep", wait)
    assert survivors(Path("/runs/one"), tmp_path, 0.05) == [8]
    assert waited
