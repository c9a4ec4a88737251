"""Waits for a disk, told apart from other waits by samples of the main thread's state."""

import json

import pytest
from tests.read.run_directory.test_run_directory import MS, steps, write_run

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.input.storage_wait import diagnose
from stepwhy.read.registry import read_folder

STEPS, STEP_MS = 100, 40


def storage_wait(folder, *, ran_ms, disk_waits, other_waits=0, read_bytes=1 << 20):
    """The finding about steps in which the main thread runs for a part of the time."""
    process = write_run(folder, steps(STEPS, STEP_MS * MS))
    lines = [
        {
            "time_ns": i * STEP_MS * MS,
            "main_ran_ns": i * ran_ms * MS,
            "disk_waits": round(i / STEPS * disk_waits),
            "other_waits": round(i / STEPS * other_waits),
            "disk_read_bytes": i * read_bytes,
            "disk_written_bytes": 0,
            "machine_swapped_in_bytes": 0,
        }
        for i in range(0, STEPS + 1, 10)
    ]
    (process / "counters.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    (recording,) = read_folder(folder)
    return diagnose(Facts(recording.trace))


def test_waits_for_a_disk_are_found(tmp_path):
    finding = storage_wait(tmp_path, ran_ms=20, disk_waits=30)
    assert finding.verdict == "found"
    assert finding.cost_ns_per_step == pytest.approx(20 * MS, rel=0.1)


@pytest.mark.parametrize("seen", [0, 3])
def test_blocked_readers_that_were_hardly_seen_cannot_be_told(tmp_path, seen):
    finding = storage_wait(tmp_path, ran_ms=20, disk_waits=seen)
    assert finding.verdict == "incomplete"
    assert "blocked for 50 % of the time" in finding.reason
    assert f"too few of its waits were seen ({seen})" in finding.reason


@pytest.mark.parametrize(
    "about",
    [
        {"ran_ms": 38, "disk_waits": 2},
        {"ran_ms": 20, "disk_waits": 1, "other_waits": 30},
        {"ran_ms": 20, "disk_waits": 3, "read_bytes": 100},
    ],
    ids=["hardly-blocked", "other-waits", "reads-nothing"],
)
def test_other_steps_are_clear(tmp_path, about):
    assert storage_wait(tmp_path, **about).verdict == "clear"
