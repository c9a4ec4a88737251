"""Records of a run directory that hold what no observer writes."""

import json

import pytest
from tests.engine.test_explain import kineto
from tests.read.run_directory.test_run_directory import MS, steps, write_run

from stepwhy.base.errors import CorruptInputError, InputError, NewerFormatError, NotFoundError
from stepwhy.engine import explain

LOGS = {
    "steps.jsonl": {"kind": "step", "start_ns": 0, "end_ns": 1},
    "events.jsonl": {"kind": "compile", "start_ns": 0, "end_ns": 1, "name": "f", "count": 1},
    "levels.jsonl": {"kind": "q", "time_ns": 0, "name": "q", "value": 1, "capacity": 1},
    "counters.jsonl": {"time_ns": 0, "cpu_ns": 1, "gpus": [{"index": 0, "sm_clock_mhz": 1}]},
    "loaders.jsonl": {"name": "loader", "workers": 1, "prefetch_factor": 1},
    "messages.jsonl": {"text": "x"},
    "pipeline.json": {"stages": [{"id": 1, "name": "Map", "elements": 1, "inputs": [2]}]},
    "stacks.json": {
        "stretches": [
            {
                "start_ns": 0,
                "end_ns": 1,
                "paths": [["a"]],
                "visits": [[0, 1, 0]],
                "samples": [{"line": "a", "leaf": "b", "count": 1}],
            }
        ]
    },
    "semantic.json": {
        "schema": "stepwhy.semantic/1",
        "names": ["a", "b"],
        "ops": [0, 1],
        "padding": [0, 1],
        "lines": ["a"],
        "constant": [-1, 0],
        "inputs": [{"op": "a", "rows": 1, "columns": 1, "padded": 1}],
    },
    "process.json": {"pid": 1, "rank": 0, "world_size": 1, "ended_ns": 1},
}


def with_number(record, number):
    """Copies of a record, each with another of its numbers replaced."""
    text = json.dumps(record)
    places = [i for i, c in enumerate(text) if c in "01" and not text[i - 1].isalnum()]
    return [f"{text[:at]}{number}{text[at + 1 :]}" for at in places]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 62, 10**30, "1" * 5000])
def test_numbers_beyond_64_bits_harm_nothing(tmp_path, name, number):
    for index, text in enumerate(with_number(LOGS[name], number)):
        process = write_run(tmp_path / str(index), steps(5, MS), window=kineto())
        with (process / name).open("a" if name == "steps.jsonl" else "w") as file:
            file.write(text + "\n")
        result = explain([str(tmp_path / str(index))])
        assert sum(result.breakdown.categories.values()) == result.breakdown.wall_ns
        assert min(result.breakdown.categories.values()) >= 0
        assert [f.id for f in result.findings if f.verdict == "error"] == []


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("data", [b'{"text": "\xff"}', b'{"\xe9": 1}', b"[" * 100_000])
def test_damaged_records_are_skipped(tmp_path, name, data):
    process = write_run(tmp_path, steps(5, MS), window=kineto())
    with (process / name).open("ab" if name == "steps.jsonl" else "wb") as file:
        file.write(data + b"\n")
    assert explain([str(tmp_path)]).steps.count == 5


@pytest.mark.parametrize("data", [b'{"schema": "\xff"}', b'{"schema": "\xe9"}', b"\xff"])
def test_a_run_file_that_is_no_text_is_refused(tmp_path, data):
    write_run(tmp_path, steps(5, MS))
    (tmp_path / "run.json").write_bytes(data)
    with pytest.raises(CorruptInputError, match=r"run\.json is damaged"):
        explain([str(tmp_path)])


def test_runs_that_are_out_of_order_make_no_negative_time(tmp_path):
    times = [(0, 2000), (2000, 3000), (1, 1_700_002), (1700, 1700), (5000, 1)]
    lines = [
        json.dumps({"kind": "run", "signature": 1, "start_ns": start * 1000, "end_ns": end * 1000})
        for start, end in times * 3
    ]
    write_run(tmp_path, lines, window=kineto())
    result = explain([str(tmp_path)])
    assert sum(result.breakdown.categories.values()) == result.breakdown.wall_ns
    assert min(result.breakdown.categories.values()) >= 0
    assert min(result.steps.durations_ns) >= 0


@pytest.mark.parametrize("name", ["a" * 300, f"{'a' * 300}/trace.json", "a/" * 3000])
def test_a_name_that_no_file_can_have_is_not_found(name):
    with pytest.raises(NotFoundError, match="does not exist"):
        explain([name])


def test_a_link_to_a_name_that_no_file_can_have_is_nothing(tmp_path):
    process = write_run(tmp_path, steps(5, MS))
    for folder in (tmp_path / "process-8", tmp_path / "run.link", process / "windows" / "001"):
        folder.symlink_to("a" * 300)
    assert explain([str(tmp_path)]).steps.count == 5


def test_a_folder_of_links_to_names_that_no_file_can_have_holds_no_trace(tmp_path):
    for name in ("run.json", "process.json", "trace.json", "process-7"):
        (tmp_path / name).symlink_to("a" * 300)
    with pytest.raises(InputError):
        explain([str(tmp_path)])


def test_amounts_below_zero_are_skipped(tmp_path):
    process = write_run(tmp_path, steps(5, MS), window=kineto())
    samples = [{"time_ns": n * MS, "resident_bytes": -1, "swap_bytes": 1} for n in range(5)]
    (process / "counters.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    result = explain([str(tmp_path)])
    assert result.steps.count == 5
    assert all((use.base_bytes or 0) >= 0 for use in result.memory)


def test_a_long_version_is_cut_off(tmp_path):
    write_run(tmp_path, steps(5, MS), schema="v" * 100_000)
    with pytest.raises(NewerFormatError) as caught:
        explain([str(tmp_path)])
    assert len(str(caught.value)) < 300
