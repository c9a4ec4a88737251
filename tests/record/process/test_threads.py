"""How many threads an operation may use, and how many cores there are for them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from stepwhy.record.core.process import threads
from stepwhy.record.core.process.folder import ProcessFolder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "_read", {}.get)


def test_without_a_setting_there_is_a_thread_per_core():
    assert threads.threads_and_cores(0) == {"intra_op_threads": 8, "usable_cores": 8}
    assert threads.threads_and_cores(3) == {"intra_op_threads": 3, "usable_cores": 8}


@pytest.mark.parametrize(("limit", "cores"), [("250000 100000", 2), ("50000 100000", 1)])
def test_a_limit_of_the_control_group_counts_as_cores(monkeypatch, limit, cores):
    files = {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": limit}
    monkeypatch.setattr(threads, "_read", files.get)
    assert threads.threads_and_cores(0) == {"intra_op_threads": 8, "usable_cores": cores}


def test_a_variable_replaces_the_default_of_tensorflow(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert threads.tensorflow_threads(0)["intra_op_threads"] == 2
    assert threads.tensorflow_threads(5)["intra_op_threads"] == 5


def test_a_process_records_what_its_functions_return(tmp_path: Path):
    folder = ProcessFolder(tmp_path)
    folder.open({"framework": "f", "one": lambda: {"threads": 4}, "two": lambda: {}["missing"]})
    about = json.loads((folder.path / "process.json").read_text())
    assert (about["framework"], about["threads"]) == ("f", 4)
    assert not {"one", "two"} & about.keys()
