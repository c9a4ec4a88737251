"""What is found in a folder, and what the list shows of it."""

import json

import pytest

from stepwhy.apps.serve import scan as scans
from stepwhy.apps.serve.scan import scan
from stepwhy.apps.serve.summaries import program_of, summarise
from stepwhy.show import html
from stepwhy.show.json import render
from tests.serve.runs import COMMIT, START_NS, index_of, write_run
from tests.show.conftest import SAMPLES


def found_in(root):
    return {entry.path: entry.summary for entry in index_of(root).entries()}


def test_a_run(tmp_path):
    write_run(tmp_path, "train-1", commit=COMMIT, branch="main", exit_code=3)
    summary = found_in(tmp_path)["train-1"]
    assert (summary.kind, summary.state, summary.time_ns) == ("run", "explained", START_NS)
    assert (summary.program, summary.command) == ("train.py", "python train.py")
    assert (summary.framework, summary.bound_by) == ("PyTorch", "input")
    assert summary.wall_ns == sum(summary.categories.values()) > 0
    assert (summary.commit, summary.branch, summary.exit_code) == (COMMIT, "main", 3)
    assert "launch-bound" in {name for name, _ in summary.findings}
    assert "misplaced-op" not in {name for name, _ in summary.findings}  # not found


def test_the_folder_itself_may_be_a_run(tmp_path):
    write_run(tmp_path, "train-1")
    assert list(found_in(tmp_path / "train-1")) == ["."]


def test_results_and_pages_are_found_by_their_content(tmp_path):
    result = SAMPLES["towers"]()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "stored.json").write_text(render(result))
    html.write(tmp_path / "page.html", result)
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    (tmp_path / "other.html").write_text("<title>x</title>")
    (tmp_path / "torn.json").write_text(render(result)[:-40])
    (tmp_path / "text.txt").write_text(render(result))
    (tmp_path / ".hidden.json").write_text(render(result))
    found = found_in(tmp_path)
    assert {path: summary.kind for path, summary in found.items()} == {
        "a/stored.json": "result",
        "page.html": "page",
    }
    assert found["page.html"].sentence == f"Transfer-bound: {result.verdict.sentence}"


def test_a_run_without_a_result(tmp_path):
    folder = write_run(tmp_path, "train-1", result=False)
    (folder / "process-7").mkdir()
    (folder / "process-7" / "process.json").write_text('{"framework": "tensorflow"}')
    summary = found_in(tmp_path)["train-1"]
    found = (summary.state, summary.framework, summary.median_ns)
    assert found == ("unexplained", "tensorflow", None)


def test_a_run_without_an_end(tmp_path):
    write_run(tmp_path, "train-1", result=False, ended_ns=None)
    assert found_in(tmp_path)["train-1"].state == "unfinished"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.json", "{"),
        ("run.json", '{"schema": "stepwhy.run/9"}'),
        ("result.json", "{}"),
        ("result.json", '{"verdict": 1}'),
        ("result.json", "\udcff"),
    ],
)
def test_a_damaged_run_is_shown_as_such(tmp_path, name, text):
    folder = write_run(tmp_path, "train-1")
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    summary = found_in(tmp_path)["train-1"]
    assert summary.state == "damaged"
    assert summary.reason


@pytest.mark.parametrize("value", [-1, 1 << 70, "x", 1.5, None])
def test_numbers_out_of_bounds_are_damage(tmp_path, value):
    folder = write_run(tmp_path, "train-1")
    data = json.loads((folder / "result.json").read_text())
    data["steps"]["median_ns"] = value
    (folder / "result.json").write_text(json.dumps(data))
    assert found_in(tmp_path)["train-1"].state == "damaged"


def test_without_steps_there_is_no_step_time(tmp_path):
    from msgspec import structs

    sample = SAMPLES["input_bound"]()
    whole = structs.replace(sample, steps=structs.replace(sample.steps, source="whole-trace"))
    write_run(tmp_path, "train-1", whole)
    assert found_in(tmp_path)["train-1"].median_ns is None


def test_depth_and_number_are_limited(tmp_path, monkeypatch):
    deep = "a/b/c/d/e/train-1"
    write_run(tmp_path, deep)
    write_run(tmp_path, "a/b/c/d/e/f/train-2")
    assert list(found_in(tmp_path)) == [deep]
    monkeypatch.setattr("stepwhy.read.inputs.folders.MOST_ENTRIES", 3)
    _, note = scan(tmp_path)
    assert "not complete" in note


def test_a_circle_of_links_ends(tmp_path):
    write_run(tmp_path, "train-1")
    (tmp_path / "again").symlink_to(tmp_path)
    assert list(found_in(tmp_path)) == ["train-1"]


def test_a_file_that_goes_meanwhile_is_left_out(tmp_path):
    folder = write_run(tmp_path, "train-1")
    found, _ = scan(tmp_path)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert [summarise(tmp_path, one).state for one in found] == ["damaged"]
    assert scans.scan(tmp_path)[0] == []


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["python3.11", "src/train.py", "--lr", "1"], "train.py"),
        (["torchrun", "--nproc", "8", "train.py"], "train.py"),
        (["python", "-m", "pkg.train"], "pkg.train"),
        (["./bin/train", "x"], "train"),
        ([], ""),
    ],
)
def test_programs(command, program):
    assert program_of(command) == program
