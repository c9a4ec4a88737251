"""Redaction of the lines that are printed at the end of a run."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from stepwhy.api import watching
from stepwhy.engine import explain
from stepwhy.engine.present import show
from stepwhy.show.console import Console
from tests.engine.test_explain import kineto
from tests.read.run_directory.test_run_directory import steps, write_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "zyxhome4711"))


def test_lines_below_the_report_contain_no_home(tmp_path: Path) -> None:
    run = tmp_path / "zyxhome4711" / "run"
    write_run(run, steps(10, 950_000, profiled=(4, 5)), window=kineto())
    printed = io.StringIO()
    show(explain([str(run)]), run, Console(file=printed, width=300))
    assert "Again: stepwhy explain ~/run" in printed.getvalue()
    assert "zyxhome4711" not in printed.getvalue() + (run / "report.html").read_text()


def test_messages_of_a_watched_block_contain_no_home(tmp_path: Path) -> None:
    block = watching.watch(tmp_path / "zyxhome4711" / "run", quiet=True)
    block._block.messages.append(f"cannot be written: {tmp_path}/zyxhome4711/run")
    assert "cannot be written: ~/run" in block._repr_html_()
