"""The command `stepwhy whatif` and the function of that name."""

import json

import pytest
from click.testing import CliRunner

import stepwhy
from stepwhy.base.errors import EditError
from stepwhy.cli import cli
from stepwhy.trace.notation import parse
from stepwhy.trace.store import save
from tests.predict.test_replay import EXCHANGING, WAITING

pytest.importorskip("pyarrow")


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "waiting.stepwhy"
    save(parse(WAITING), path)
    return path


def invoke(*args):
    return CliRunner().invoke(cli, ["whatif", *map(str, args)])


def test_the_table_states_step_saving_and_what_subtracting_gives(trace):
    lines = invoke(trace, "--edit", "kernels=2x").stdout.splitlines()
    header = next(n for n, line in enumerate(lines) if "subtracted" in line)
    expected = "kernels=2x 65.0 µs 34 to 55 µs 34 % to 55 % 65.0 µs"
    assert " ".join(lines[header + 1].split()) == expected
    assert "100 % of the device work is known" in " ".join(" ".join(lines).split())


def test_without_edits_it_predicts_what_each_part_could_gain(trace):
    result = json.loads(invoke(trace, "--json").stdout)
    edits = [f"{p['edits'][0]['what']}={p['edits'][0]['change']}" for p in result["predictions"]]
    assert {"kernels=faster", "dispatch=gone"} <= set(edits)
    assert result["replay"]["qualifies"]


def test_several_edits_are_made_together(trace):
    result = json.loads(
        invoke(trace, "--edit", "kernels=2x", "--edit", "launches=gone", "--json").stdout
    )
    (prediction,) = result["predictions"]
    assert [e["what"] for e in prediction["edits"]] == ["kernels", "launches"]


def test_edits_may_follow_the_path(trace):
    result = json.loads(invoke(trace, "kernels=2x", "launches=gone", "--json").stdout)
    (prediction,) = result["predictions"]
    assert [e["what"] for e in prediction["edits"]] == ["kernels", "launches"]
    assert invoke("kernels=2x").exit_code == 2
    assert invoke(trace, "loss=gone").exit_code == 8


def test_a_file_whose_name_is_like_an_edit_is_a_file(trace, monkeypatch):
    monkeypatch.chdir(trace.parent)
    trace.rename(trace.parent / "input=free")
    assert json.loads(invoke("input=free", "kernels=2x", "--json").stdout)["path"] == "input=free"


@pytest.mark.parametrize("edit", ["stage:1=even", "link:0-1=2x", "group:dp=2x", "variance=gone"])
def test_what_compares_ranks_needs_all_of_them(trace, edit):
    text = " ".join(invoke(trace, edit).stdout.split())
    assert f"What {edit} changes shows only where all ranks are recorded." in text


def test_what_cannot_be_predicted_is_listed_with_the_reason(trace):
    text = " ".join(invoke(trace, "--edit", "communication=gone").stdout.split())
    assert "Not predicted communication=gone The trace has no communication on the device." in text


def test_a_text_that_is_no_edit_is_refused(trace):
    outcome = invoke(trace, "--edit", "loss=gone")
    assert outcome.exit_code == 8
    assert outcome.stderr.strip().endswith("[cannot-edit]")


def test_the_function_and_the_package_share_a_name(trace):
    for _ in range(2):
        (prediction,) = stepwhy.whatif(trace, "kernels=2x").predictions
        assert prediction.remaining_ns == 65_000
    with pytest.raises(EditError):
        stepwhy.whatif(trace, "faster")


def test_explain_predicts_fixes_unless_told_not_to(tmp_path):
    path = tmp_path / "exchanging.stepwhy"
    save(parse(EXCHANGING), path)
    for options, method in ([], "replay"), (["--no-predict"], "bound"):
        done = CliRunner().invoke(cli, ["explain", str(path), "--json", *options])
        found = {f["id"]: f for f in json.loads(done.stdout)["findings"]}
        assert found["exposed-communication"]["saving"]["method"] == method


def test_the_timeline_shows_predicted_steps_beneath_recorded_ones(trace, tmp_path):
    file = tmp_path / "predicted.json"
    invoke(trace, "--edit", "kernels=2x", "--timeline", file)
    events = json.loads(file.read_text())["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    predicted = [e for e in events if e.get("cat") == "predicted"]
    steps = [e for e in predicted if rows[e["tid"]] == "predicted steps"]
    assert [(e["ts"], e["dur"]) for e in steps] == [(0, 65), (100, 65), (200, 65)]
    kernels = [e for e in predicted if e["name"] == "gemm"]
    assert [(e["ts"], e["dur"]) for e in kernels] == [(20, 35), (120, 35), (220, 35)]
    # What is read back is the recorded trace alone.
    assert CliRunner().invoke(cli, ["explain", str(file), "--json"]).exit_code == 0


def test_a_timeline_needs_a_change_that_can_be_predicted(trace, tmp_path):
    file = tmp_path / "predicted.json"
    assert invoke(trace, "--timeline", file).exit_code == 2
    assert invoke(trace, "--edit", "communication=gone", "--timeline", file).exit_code == 8
    assert not file.exists()
