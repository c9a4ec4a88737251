"""Which steps a log calls usual, and which parts of a period they fill."""

import json

import pytest

from stepwhy.record.sampling.usual_steps import LoggedSteps, logged_steps

MS = 1_000_000


def log(folder, *steps):
    """Log steps: start and end in ms, and whether each was profiled."""
    lines = [
        json.dumps(
            {"kind": "step", "start_ns": a * MS, "end_ns": b * MS, "profiled": int(profiled)},
            separators=(",", ":"),
        )
        for a, b, profiled in steps
    ]
    (folder / "steps.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_the_latest_steps_of_a_log(tmp_path):
    log(tmp_path, (0, 10, False), (10, 400, True), (400, 410, False))
    steps = logged_steps(tmp_path)
    assert steps == LoggedSteps(410 * MS, [(10 * MS, 400 * MS)])
    assert steps.is_usual_after(400 * MS)
    assert not steps.is_usual_after(410 * MS)
    log(tmp_path, (0, 10, False), (10, 400, True))
    assert not logged_steps(tmp_path).is_usual_after(0)


def test_only_the_end_of_a_long_log_is_read(tmp_path):
    log(tmp_path, (0, 10, True), *((10 * n, 10 * n + 10, n == 998) for n in range(1, 1000)))
    assert logged_steps(tmp_path, 1000) == LoggedSteps(10_000 * MS, [(9980 * MS, 9990 * MS)])


@pytest.mark.parametrize(
    "text", [None, "", "[1]\n", '{"start_ns":1,"end_ns":null}\n', "{}\n", "x\n"]
)
def test_a_damaged_log_has_no_steps(tmp_path, text):
    if text is not None:
        (tmp_path / "steps.jsonl").write_text(text)
    assert logged_steps(tmp_path) == LoggedSteps()


@pytest.mark.parametrize(
    ("profiled", "expected"),
    [
        ([], [(1000, 3000)]),
        ([(0, 900), (3000, 4000)], [(1000, 3000)]),
        ([(0, 4000)], []),
        ([(500, 1500)], [(1520, 3000)]),
        ([(1500, 2000), (2000, 2200), (2230, 2400)], [(1000, 1480), (2420, 3000)]),
    ],
)
def test_parts_without_profiled_steps(profiled, expected):
    steps = LoggedSteps(4000 * MS, [(a * MS, b * MS) for a, b in profiled])
    parts = steps.usual_parts(1000 * MS, 3000 * MS)
    assert [(a // MS, b // MS) for a, b in parts] == expected
