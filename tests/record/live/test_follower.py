"""A log that is read while it grows, rotates and vanishes."""

from __future__ import annotations

import os

import pytest

from stepwhy.apps.top.follower import LogFollower
from stepwhy.record.core.process.folder import BoundedLog


@pytest.fixture
def log(tmp_path):
    """A log that is rotated after three lines of nine bytes, and keeps two full files."""
    return BoundedLog(tmp_path, "steps", file_bytes=30, kept_files=2)


def write(log, first, last):
    for number in range(first, last):
        log.append([f"line {number:04d}"])


def numbers(lines):
    return [int(line.split()[1]) for line in lines]


def test_each_line_is_read_once(log, tmp_path):
    follower = LogFollower(tmp_path, "steps")
    assert follower.new_lines() == []
    write(log, 0, 2)
    assert numbers(follower.new_lines()) == [0, 1]
    assert follower.new_lines() == []
    write(log, 2, 3)
    assert numbers(follower.new_lines()) == [2]


def test_lines_are_read_across_rotations(log, tmp_path):
    follower = LogFollower(tmp_path, "steps")
    write(log, 0, 2)
    assert numbers(follower.new_lines()) == [0, 1]
    write(log, 2, 8)
    assert numbers(follower.new_lines()) == [*range(2, 8)]
    write(log, 8, 9)
    assert numbers(follower.new_lines()) == [8]
    assert not follower.is_lost


def test_a_rotated_log_is_read_from_its_beginning(log, tmp_path):
    write(log, 0, 8)
    assert numbers(LogFollower(tmp_path, "steps").new_lines()) == [*range(8)]


def test_deleted_lines_are_noticed(log, tmp_path):
    follower = LogFollower(tmp_path, "steps")
    write(log, 0, 4)
    assert numbers(follower.new_lines()) == [*range(4)]
    write(log, 4, 30)
    follower.new_lines()
    assert follower.is_lost
    assert follower.new_lines() == []


def test_a_torn_line_waits_for_its_end(tmp_path):
    path, follower = tmp_path / "steps.jsonl", LogFollower(tmp_path, "steps")
    path.write_bytes(b"line 0001\nline 0")
    assert numbers(follower.new_lines()) == [1]
    path.write_bytes(b"line 0001\nline 0002\n")
    assert numbers(follower.new_lines()) == [2]


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_read(tmp_path, plant):
    plant(tmp_path / "steps.jsonl")
    assert LogFollower(tmp_path, "steps").new_lines() == []


def test_a_folder_that_vanishes_ends_the_log(log, tmp_path):
    follower = LogFollower(tmp_path, "steps")
    write(log, 0, 2)
    follower.new_lines()
    (tmp_path / "steps.jsonl").unlink()
    assert follower.new_lines() == []
