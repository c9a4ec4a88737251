"""A single traced run of a session, and the timeline that the program writes of it."""

import importlib.util
from pathlib import Path

import pytest

from stepwhy.engine import explain

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

_PROGRAM = Path(__file__).parents[2] / "lab" / "tf1" / "matmul_timeline" / "matmul.py"
_SMALL = ("--rows", "600", "--inner", "3000", "--columns", "300")
_US = 1_000
# The step statistics are read to the nanosecond, a timeline is written in microseconds. What lies
# between is a sum of several parts, each of which may be off by one.
_ROUNDED = 5 * _US


@pytest.fixture(scope="module", params=["drawn", "kept"])
def run(request, tmp_path_factory, forks):
    """Operands, run directory, and timeline of the program."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["-Wignore", _PROGRAM, *_SMALL, "--operands", request.param]
        ended = forks("tensorflow").launch(words, folder / "run")
    assert ended.exit_code == 0
    return request.param, ended.run_dir, folder / "timeline_01.json"


def statistics(run_dir):
    """Start, end and wall time of the run, and time of its operations, read by TensorFlow; ns."""
    from tensorflow.core.protobuf import config_pb2

    (file,) = run_dir.glob("process-*/windows/*/run_metadata.pb")
    metadata = config_pb2.RunMetadata.FromString(file.read_bytes())
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    times = [(n.all_start_nanos, n.all_start_nanos + n.op_end_rel_nanos) for n in nodes]
    random = [
        (n.node_name, n.all_end_rel_nanos) for n in nodes if "RandomStandardNormal" in n.node_name
    ]
    return min(start for start, _ in times), max(end for _, end in times), dict(random)


def test_an_observed_run_is_an_answer_but_no_steady_state(run):
    operands, run_dir, _ = run
    result = explain([str(run_dir)])
    clock = result.wall_clock
    first_ns, last_ns, random = statistics(run_dir)
    gap = {part.kind: part.ns for part in clock.gap}
    assert (clock.runs, clock.steady, clock.is_whole) == (1, 0, True)
    assert "not a steady state" in clock.sentence
    assert "every" not in result.verdict.sentence
    inside_ns = clock.wall_ns - gap["after"] - gap.get("before", 0) - gap.get("preparation", 0)
    assert abs(inside_ns - (last_ns - first_ns)) < _ROUNDED
    drawn = next(f for f in result.findings if f.id == "serial-input")
    if operands == "kept":
        assert (drawn.verdict, random) == ("clear", {})
        return
    assert drawn is result.findings[0]
    assert drawn.title == "Generate random input once, or ahead of the step"
    assert {fact.value for fact in drawn.evidence[1:]} == set(random.values())
    lines = _PROGRAM.read_text().splitlines()
    numbers = [i for i, line in enumerate(lines, 1) if "= tf.random_normal" in line]
    assert {fact.where.partition(" · ")[2] for fact in drawn.evidence[1:]} == {
        f"matmul.py({number}): main" for number in numbers
    }


def test_the_timeline_is_an_answer_about_the_same_run(run):
    operands, run_dir, timeline = run
    result = explain([str(timeline)])
    first_ns, last_ns, _ = statistics(run_dir)
    clock = result.wall_clock
    assert result.verdict.bound_by == "compute"
    assert (clock.runs, clock.steady, clock.is_whole) == (1, 0, False)
    assert abs(clock.wall_ns - (last_ns - first_ns)) < _ROUNDED
    assert "sampled or filtered" not in result.verdict.sentence
    found = {f.id: f.verdict for f in result.findings}
    assert found["serial-input"] == ("found" if operands == "drawn" else "clear")
