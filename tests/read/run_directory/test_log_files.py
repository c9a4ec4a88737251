"""Logs that were rotated, damaged, or are being written."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwhy.read.formats.run_directory.log_files import Gap, LogLines, read_log
from stepwhy.read.inputs.folders import RunFolder
from stepwhy.record.core.process.folder import BoundedLog


def test_a_log_of_one_file(tmp_path):
    (tmp_path / "steps.jsonl").write_bytes(b"0\n1\n")
    assert read_log(RunFolder(tmp_path), "steps") == LogLines([b"0", b"1"])


def test_a_log_that_is_not_there(tmp_path):
    assert read_log(RunFolder(tmp_path), "steps") == LogLines([])


def test_dropped_lines_are_counted(tmp_path):
    (tmp_path / "steps-000000000000.jsonl").write_bytes(b"0\n1\n")
    (tmp_path / "steps-000000000007.jsonl").write_bytes(b"7\n8\n")
    (tmp_path / "steps.jsonl").write_bytes(b"9\n")
    log = read_log(RunFolder(tmp_path), "steps")
    assert log == LogLines([b"0", b"1", b"7", b"8", b"9"], (Gap(2, 2, 6),))


def test_a_first_file_that_was_deleted_is_a_gap(tmp_path):
    (tmp_path / "steps-000000000003.jsonl").write_bytes(b"3\n")
    assert read_log(RunFolder(tmp_path), "steps").gaps == (Gap(0, 0, 2),)


def test_a_foreign_file_is_no_part_of_the_log(tmp_path):
    (tmp_path / "steps-copy.jsonl").write_bytes(b"x\n")
    (tmp_path / "steps.jsonl").write_bytes(b"0\n")
    assert read_log(RunFolder(tmp_path), "steps").lines == [b"0"]


def test_a_file_that_was_set_aside_while_it_was_read_counts_once(tmp_path):
    # What is left behind when the rename comes between the reading and the listing.
    (tmp_path / "steps-000000000000.jsonl").write_bytes(b"0\n1\n")
    (tmp_path / "steps.jsonl").write_bytes(b"0\n1\n")
    assert read_log(RunFolder(tmp_path), "steps").lines == [b"0", b"1"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.integers(1, 9), max_size=40), kept=st.integers(2, 4))
def test_what_is_kept_and_what_is_missing_is_all_that_was_written(batches, kept, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    log, written = BoundedLog(folder, "steps", file_bytes=60, kept_files=kept), 0
    for size in batches:
        log.append([str(written + n) for n in range(size)])
        written += size
    read = read_log(RunFolder(folder), "steps")
    missing = [n for gap in read.gaps for n in range(gap.first, gap.last + 1)]
    assert sorted([int(line) for line in read.lines] + missing) == list(range(written))
    assert len(read.gaps) <= 1
    assert all(int(read.lines[gap.index]) == gap.last + 1 for gap in read.gaps)
