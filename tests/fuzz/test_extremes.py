"""Extreme inputs in small: work that grows with the size of a file, not with its square.

`fuzz/extreme.py` measures all of them at 10 MB.
"""

import cProfile
from contextlib import suppress

import numpy as np
import pytest
from fuzz.extremes.cases import CASES
from fuzz.extremes.cost import cost_of

from stepwhy.base.errors import InputError
from stepwhy.engine.explain import explain
from stepwhy.engine.opening import open_one
from stepwhy.engine.profile import profile
from stepwhy.read.registry import all_formats
from stepwhy.show.json import render

# Those whose work grew with the square of their size, and one or two of each format.
WATCHED = {
    "kineto": {
        *("devices", "devices with steps", "streams", "processes", "names"),
        *("allocations", "memory of devices"),
    },
    "chrome_trace": {"devices", "names of threads", "overlapping"},
    "tf_timeline": {"devices"},
    "horovod": {"ranks of one exchange"},
    "megascan": {"ranks"},
    "rocprof": {"agents"},
    "memory_timeline": {"allocations"},
    "xplane": {"devices", "empty planes", "names"},
    "run_metadata": {"devices", "graph star"},
    "tfprof": {"nodes"},
    "tensorboard": {"queues"},
    "nsys": {"devices", "tables"},
    "nvprof": {"open markers"},
    "store": {"threads"},
    "exported": {"threads"},
}
CHOSEN = [case for case in CASES if case.name in WATCHED.get(case.format, ())]


def explained(path):
    render(explain([path]))


def listed(path):
    render(profile(open_one(path).trace, path, "scope"))


def calls_for(case, size, folder, command=explained):
    """Calls of functions that a command takes for a case, whatever else the machine does."""
    folder.mkdir()
    for name, data in case.files(size).items():
        (folder / name).write_bytes(data)
    profiler = cProfile.Profile()
    profiler.enable()
    with suppress(InputError):
        command(str(folder / name))
    profiler.disable()
    return sum(entry.callcount for entry in profiler.getstats())


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: f"{case.format}-{case.name}")
def test_work_grows_with_the_size_of_a_file(case, tmp_path):
    calls_for(case, 1000, tmp_path / "first")  # what is imported once
    few = calls_for(case, 10_000, tmp_path / "small")
    many = calls_for(case, 40_000, tmp_path / "large")
    assert many < 5.5 * few


@pytest.mark.parametrize("name", ["nested names of operations", "nested ranges", "nested modules"])
def test_work_of_ops_grows_with_the_size_of_a_file(name, tmp_path):
    (case,) = (c for c in CASES if (c.format, c.name) == ("kineto", name))
    calls_for(case, 1000, tmp_path / "first", listed)
    few = calls_for(case, 10_000, tmp_path / "small", listed)
    many = calls_for(case, 40_000, tmp_path / "large", listed)
    assert many < 5.5 * few


@pytest.mark.parametrize(
    ("format_name", "name", "megabytes"),
    [
        ("kineto", "allocations", 2),
        ("kineto", "processes", 9.9),
        ("chrome_trace", "names of threads", 5),
        ("xplane", "empty planes", 3),
    ],
)
def test_a_small_file_takes_bounded_time_and_memory(format_name, name, megabytes, tmp_path):
    """Each of these took minutes, or gigabytes."""
    (case,) = (c for c in CASES if (c.format, c.name) == (format_name, name))
    ((file, data),) = case.files(int(megabytes * 1e6)).items()
    (tmp_path / file).write_bytes(data)
    cost = cost_of(["explain", file, "--json"], str(tmp_path))
    assert cost.is_allowed, cost


def test_memory_of_the_measuring_process_does_not_count(tmp_path):
    """A process starts with the peak of the one that forked it."""
    held = np.ones(250_000_000, np.uint8)
    cost = cost_of(["--version"], str(tmp_path))
    assert 0 < cost.peak_mb < held.nbytes / 1e6


def test_every_format_that_a_file_can_have_has_extreme_inputs():
    files = {name for name, f in all_formats().items() if not f.is_folder}
    assert {case.format for case in CASES} == files


def test_names_of_cases_are_unique():
    assert len({(case.format, case.name) for case in CASES}) == len(CASES)
    assert all(names <= {c.name for c in CASES if c.format == f} for f, names in WATCHED.items())
