"""Processes that outlive the command."""

from __future__ import annotations

import os
from pathlib import Path

from stepwhy.capture.survivors import survivors


def process(proc: Path, pid: str, environ: bytes | None) -> None:
    (proc / pid).mkdir()
    if environ is not None:
        (proc / pid / "environ").write_bytes(environ)


def test_those_with_the_run_directory_in_their_environment_survive(tmp_path: Path) -> None:
    process(tmp_path, "7", b"A=1\0STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, "8", b"STEPWHY_RUN_DIR=/runs/one-more\0")
    process(tmp_path, "9", b"MY_STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, "10", None)
    process(tmp_path, "self", b"STEPWHY_RUN_DIR=/runs/one\0")
    process(tmp_path, f"{os.getpid()}", b"STEPWHY_RUN_DIR=/runs/one\0")
    assert survivors(Path("/runs/one"), tmp_path) == [7]


def test_a_system_that_shows_no_processes_has_none_to_tell(tmp_path: Path) -> None:
    assert survivors(Path("/runs/one"), tmp_path / "none") == []
