"""The kernel's count of processes killed for lack of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.launcher.run_directory import OomKills

if TYPE_CHECKING:
    from pathlib import Path


def test_kills_are_counted_from_the_start(tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    counters.write_text("nr_free_pages 7\noom_kill 3\noom_kill_other 9\n")
    kills = OomKills(counters)
    assert kills.count() == 0
    counters.write_text("nr_free_pages 7\noom_kill 5\n")
    assert kills.count() == 2


def test_kernel_without_the_counter_gives_none(tmp_path: Path) -> None:
    assert OomKills(tmp_path / "none").count() is None
    (tmp_path / "vmstat").write_text("nr_free_pages 7\n")
    assert OomKills(tmp_path / "vmstat").count() is None
