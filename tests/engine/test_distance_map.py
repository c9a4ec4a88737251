"""The distance maps of the lab: the report names the Python that makes them, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.engine.assemble import assemble
from stepwhy.read.registry import read_folder

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

_PAIR = Path(__file__).parents[2] / "lab" / "tf1" / "distance_map"
_SHORT = ("--steps", "30")


def result_of(forks, run_dir, script, *args):
    words = ["-Wignore", _PAIR / script, *_SHORT, *args]
    ended = forks("tensorflow").launch(words, run_dir)
    assert ended.exit_code == 0
    (recording,) = read_folder(ended.run_dir)
    return assemble(Facts(recording.trace), str(ended.run_dir), recording.format)


@pytest.mark.parametrize("pipeline", ["queue", "dataset", "feed"])
def test_the_first_finding_is_the_python_that_makes_the_maps(tmp_path, forks, pipeline):
    result = result_of(forks, tmp_path / "run", "faulty.py", "--input", pipeline)
    found = [finding for finding in result.findings if finding.verdict == "found"]
    # Also where other programs use the cores: waiting for one is no time without explanation.
    assert "wall-device-gap" not in {finding.id for finding in found}
    (judged,) = [finding for finding in result.findings if finding.id == "python-preprocessing"]
    # Beside other programs, few stacks can be sampled, and other waits may take longer.
    if not result.verdict.caveat and judged.verdict not in {"no_data", "incomplete"}:
        assert found[0].id == "python-preprocessing"
        assert "distance_map" in str(found[0].evidence)


def test_maps_that_were_made_once_are_no_finding(tmp_path, forks):
    result = result_of(forks, tmp_path / "run", "fixed.py")
    found = {finding.id for finding in result.findings if finding.verdict == "found"}
    assert not found & {"python-preprocessing", "wall-device-gap"}
