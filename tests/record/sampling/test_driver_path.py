"""Where the main thread was in the program, by a record of py-spy."""

import json
import re

import pytest

from stepwhy.record.core.user_code import UserFiles
from stepwhy.record.sampling.driver_path import Visit, counted, driver_path

ROOT = "/home/user/project"
TORCH = "conv (/env/lib/python3.11/site-packages/torch/x.py:1)"
MAIN = f"<module> ({ROOT}/train.py:40)"
STEP = f"step ({ROOT}/train.py:12)"


def event(frame):
    """The name and place of a frame 'function (path:line)'; one that names a thread has none."""
    match = re.match(r"(.*) \((/.*):(\d+)\)$", frame)
    name, path, line = match.groups() if match else (frame, "", 0)
    return {"name": name, "args": {"filename": path, "line": int(line)}}


def recorded(*stacks, tid=1):
    """A record of a thread that stays in each stack, frames outermost first, for some ms."""
    events, now_us = [], 0
    for frames, duration_ms in stacks:
        begun = [event(frame) | {"pid": 7, "tid": tid} for frame in frames]
        events += [frame | {"ph": "B", "ts": now_us} for frame in begun]
        now_us += 1000 * duration_ms
        events += [frame | {"ph": "E", "ts": now_us} for frame in reversed(begun)]
    return events


def path(*events):
    return driver_path(json.dumps(events).encode(), 7, UserFiles(ROOT))


def test_the_path_of_the_main_thread_through_the_program():
    main = "thread (7): MainThread"
    own = recorded(
        ([main, MAIN, STEP, TORCH], 3),
        ([main, MAIN, STEP], 2),
        ([main, MAIN, f"save ({ROOT}/train.py:20)", "open (/usr/lib/python3.12/io.py:1)"], 4),
        ([main, "wait (/usr/lib/python3.12/threading.py:320)"], 1),
    )
    other = recorded((["thread (8): feeder", f"f ({ROOT}/data.py:3)"], 5), tid=2)
    assert path(*other, *own) == [
        Visit(0, 5000, ("train.py(40): <module>", "train.py(12): step")),
        Visit(5000, 9000, ("train.py(40): <module>", "train.py(20): save")),
        Visit(9000, 10000, ()),
    ]


def test_what_did_not_change_between_samples_is_one_event():
    thread, main, step = (event(frame) for frame in ("thread (7)", MAIN, STEP))
    begins = [{"ph": "B", "ts": 0}, {"ph": "B", "ts": 0}, {"ph": "B", "ts": 30}]
    events = [
        frame | {"pid": 7, "tid": 1} | begin
        for frame, begin in zip((thread, main, step), begins, strict=True)
    ]
    ends = [frame | {"ph": "E", "pid": 7, "tid": 1, "ts": 50} for frame in (step, main, thread)]
    assert path(*events, *ends) == [
        Visit(0, 30, ("train.py(40): <module>",)),
        Visit(30, 50, ("train.py(40): <module>", "train.py(12): step")),
    ]


def test_deep_recursion_is_cut():
    calls = [f"walk ({ROOT}/tree.py:{line})" for line in range(1, 40)]
    ((_, _, lines),) = path(*recorded((["thread (7)", *calls], 3)))
    assert lines[0] == "tree.py(1): walk"
    assert len(lines) == 12


@pytest.mark.parametrize(
    "damaged",
    [b"", b"[", b"{}", b'[{"ph": "B"}]', b"[1]", b'[{"ph": "E", "tid": 1, "ts": 2}]'],
)
def test_a_damaged_record_has_no_path(damaged):
    assert driver_path(damaged, 7, UserFiles(ROOT)) == []


def test_other_kinds_of_events_are_skipped():
    name = {"ph": "M", "name": "thread_name", "args": {"name": "x"}, "pid": 7, "tid": 1, "ts": 0}
    assert len(path(name, *recorded((["thread (7)", MAIN], 1)))) == 1


def test_counts_follow_from_the_times():
    own = recorded((["thread (7): main", MAIN, STEP], 31), (["thread (7): main", MAIN], 9))
    other = recorded((["thread (8): feeder", MAIN], 20), tid=2)
    lines = counted(json.dumps([*own, *other]).encode(), 10_000).splitlines()
    assert lines == [
        f"thread (7): main;{MAIN};{STEP} 3",
        f"thread (7): main;{MAIN} 1",
        f"thread (8): feeder;{MAIN} 2",
    ]
    assert counted(b"[1]", 10_000) == ""


def test_counts_of_a_part_of_the_record():
    own = recorded((["thread (7): main", MAIN, STEP], 31), (["thread (7): main", MAIN], 29))
    lines = counted(json.dumps(own).encode(), 10_000, (11_000, 51_000)).splitlines()
    assert lines == [f"thread (7): main;{MAIN};{STEP} 2", f"thread (7): main;{MAIN} 2"]
