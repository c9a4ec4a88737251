"""What the tools answer and refuse."""

import json
import os

import pytest

from stepwhy.apps.agents.answers import Answer
from stepwhy.apps.agents.bounds import MOST_DATA, MOST_TEXT, size_of
from stepwhy.apps.agents.catalog import TOOLS
from stepwhy.apps.agents.messages import Request
from stepwhy.apps.agents.tools import ANSWERS
from stepwhy.apps.agents.work import answer
from stepwhy.engine import explain
from stepwhy.show import json as report
from stepwhy.trace.notation import parse
from stepwhy.trace.store import save
from tests.agents.calls import answered, call, failed, many_ops, write_samples
from tests.engine.test_explain import kineto
from tests.redaction.markers import ENVIRONMENT, HOST, MARKERS
from tests.redaction.outputs import without_layout
from tests.redaction.places import PLACES
from tests.terminal.hostile import hostile_trace
from tests.terminal.test_terminal import HARMFUL


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_samples(tmp_path_factory.mktemp("served"))


def test_every_tool_is_described_and_answered():
    assert list(TOOLS) == list(ANSWERS)


# --- answers ---


def test_runs_are_listed_the_last_changed_first(tmp_path):
    for number, name in enumerate(("a.json", "b.json", "note.txt", ".hidden.json")):
        (tmp_path / name).write_text("{}")
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "run/0").mkdir(parents=True)
    (tmp_path / "run/run.json").write_text("{}")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/bench.json").write_text("{}")
    found = answered(tmp_path, "runs").data["runs"]
    assert {(one["path"], one["kind"]) for one in found[:2]} == {("run", "run"), ("bench", "bench")}
    assert found[2:] == [
        {"path": "b.json", "kind": "file", "bytes": 2, "modified": "1970-01-01T00:00:01Z"},
        {"path": "a.json", "kind": "file", "bytes": 2, "modified": "1970-01-01T00:00:00Z"},
    ]


def test_runs_of_a_folder_in_pages(folder):
    found = answered(folder, "runs", folder="ranks", limit=1, offset=1)
    assert len(found.data["runs"]) == 1
    assert found.data["left_out"] == [
        {"what": "runs", "shown": 1, "total": 2, "how": "Call again with a smaller offset."}
    ]
    assert "no runs" in answered(folder, "runs", folder="trace.json").text


def test_a_run_is_explained_as_on_the_command_line(folder):
    found = answered(folder, "explain", paths=["trace.json"])
    expected = json.loads(report.render(explain([str(folder / "trace.json")])))
    assert found.data["verdict"] == expected["verdict"]
    assert found.data["breakdown"] == expected["breakdown"]
    assert [f["id"] for f in found.data["findings"]] == [f["id"] for f in expected["findings"]]
    assert found.text.startswith(f"**Input-bound**: {expected['verdict']['cause']}")


def test_every_abstention_keeps_its_marker(folder):
    found = answered(folder, "explain", paths=["trace.json"]).data["findings"]
    without = [f for f in found if f["verdict"] not in ("found", "clear")]
    assert without
    assert all(f["abstention"]["code"] and f["reason"] for f in without)


def test_ranks_of_one_job_are_explained_together(folder):
    assert answered(folder, "explain", paths=["ranks"]).data["run"]["ranks"] == 2
    files = ["ranks/0.json", "ranks/1.json"]
    assert answered(folder, "explain", paths=files).data["run"]["ranks"] == 2


def test_operations_come_in_pages_and_say_where_the_next_one_is(tmp_path):
    (tmp_path / "t.json").write_text(many_ops(50))
    first = answered(tmp_path, "ops", path="t.json", limit=10).data
    second = answered(tmp_path, "ops", path="t.json", limit=10, offset=10).data
    names = [node["name"] for page in (first, second) for node in page["nodes"]]
    assert len(set(names)) == 20
    assert first["path"] == "t.json"
    (rest,) = first["left_out"]
    assert (rest["what"], rest["shown"], rest["how"]) == (
        "nodes",
        10,
        "Call again with offset=10.",
    )


LINES = """
unit: 1 ms
framework: pytorch
main   step   |[--------][--------]|
main   op     | aaa bbbb  aaa bbbb|  a=mm {source: train.py(7): f}  b=add {source: train.py(8): f}
"""


def test_lines_come_in_pages_that_add_up_to_the_step(tmp_path):
    save(parse(LINES), tmp_path / "t.stepwhy")
    found = [
        answered(tmp_path, "ops", path="t.stepwhy", view="line", limit=2, offset=offset)
        for offset in (0, 2)
    ]
    rows = [row for page in found for row in page.data["lines"]["lines"]]
    assert sum(row["time_ns"] for row in rows) == found[0].data["lines"]["wall_ns"] == 10_000_000
    assert [row["line"] for row in rows] == ["train.py(8): f", "train.py(7): f", ""]
    assert "`train.py(8): f`" in found[0].text
    assert found[0].data["left_out"][0]["what"] == "lines.lines"
    assert "of 3" not in found[1].text


def test_parents_of_a_page_are_on_it(folder):
    whole = answered(folder, "ops", path="trace.json", view="scope", limit=1000).data["nodes"]
    for limit in range(1, len(whole) + 1):
        nodes = answered(folder, "ops", path="trace.json", view="scope", limit=limit).data["nodes"]
        for number, node in enumerate(nodes):
            assert node["parent"] is None or node["parent"] < number
            assert (node["parent"] is None) == (node["depth"] == 0)


def test_a_view_that_the_trace_does_not_support_has_a_reason(folder):
    found = answered(folder, "ops", path="trace.json", view="graph")
    assert found.data["nodes"] == []
    assert found.data["reason"] in found.text


def test_changes_are_predicted(folder):
    found = answered(folder, "whatif", path="trace.json", edits=["input=free"])
    assert found.data["path"] == "trace.json"
    (one,) = found.data["predictions"] + found.data["refusals"]
    assert one["edits"][0]["what"] == "input"
    assert "input=free" in found.text
    assert len(answered(folder, "whatif", path="trace.json").data["predictions"]) > 1


def test_two_runs_are_compared(tmp_path):
    (tmp_path / "a.json").write_text(kineto())
    (tmp_path / "b.json").write_text(kineto(slow=3))
    found = answered(tmp_path, "compare", a="a.json", b="b.json", allow_busy=True)
    assert found.data["verdict"] == "slower"
    assert (found.data["a"]["label"], found.data["b"]["label"]) == ("a.json", "b.json")
    assert found.data["sentence"].split()[0] in found.text


def test_a_program_is_not_run(folder):
    (folder / "train.py").write_text("raise SystemExit")
    assert failed(folder, "compare", a="train.py", b="trace.json").slug == "unknown-format"
    assert failed(folder, "compare", a="python train.py", b="x").slug == "input-not-found"


# --- SQL ---


def test_a_query_has_rows_and_columns(folder):
    pytest.importorskip("duckdb")
    query = "select number, dur_ns, null as nothing from steps order by number"
    found = answered(folder, "sql", path="trace.json", query=query, limit=2)
    assert found.data["columns"] == ["number", "dur_ns", "nothing"]
    assert found.data["rows"][0] == {"number": 1, "dur_ns": 10_000_000, "nothing": None}
    (rest,) = found.data["left_out"]
    assert (rest["shown"], rest["total"]) == (2, None)
    last = answered(folder, "sql", path="trace.json", query=query, limit=2, offset=2).data
    assert [row["number"] for row in last["rows"]] == [3]
    assert last["left_out"][0]["total"] == 3
    beyond = answered(folder, "sql", path="trace.json", query=query, offset=9).data
    assert (beyond["rows"], beyond["left_out"][0]["total"]) == ([], None)


def test_tables_are_listed_without_a_query(folder):
    pytest.importorskip("duckdb")
    found = answered(folder, "sql", path="trace.json", limit=1000).data["rows"]
    assert {"slices", "steps", "findings"} <= {row["table"] for row in found}
    assert all(row["meaning"] for row in found)


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')", "copy steps to 'x.csv'", "attach 'x.db'",
        "select getenv('HOME')", "install httpfs", "set enable_external_access = true",
        "select nothing from steps",
    ],
)  # fmt: skip
def test_queries_stay_in_their_sandbox(folder, query, tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    assert failed(folder, "sql", path="trace.json", query=query).slug == "cannot-query"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES", 50_000_000), ("MOST_S", 0.2)])
def test_queries_have_limits(folder, monkeypatch, limit, value):
    pytest.importorskip("duckdb")
    monkeypatch.setattr("stepwhy.apps.sql.limits.MOST_S", 1000)  # on a busy machine, too
    monkeypatch.setattr(f"stepwhy.apps.sql.limits.{limit}", value)
    query = "select len(list(i)), sum(hash(i) % 7) from range(9000000) a(i), range(1000000) b(j)"
    failure = failed(folder, "sql", path="trace.json", query=query)
    assert failure.slug == "query-limit"
    assert "Aggregate or filter" in failure.todo


# --- refusals ---


@pytest.mark.parametrize(
    ("tool", "arguments", "slug"),
    [
        ("explain", {"paths": ["/etc/passwd"]}, "not-served"),
        ("explain", {"paths": ["https://example.org/t.json"]}, "not-served"),
        ("explain", {"paths": ["none.json"]}, "input-not-found"),
        ("explain", {"paths": ["trace.json", "slow.json"]}, "several-runs"),
        ("runs", {"folder": "../x"}, "not-served"),
        ("ops", {"path": "*.json"}, "several-runs"),
        ("whatif", {"path": "trace.json", "edits": ["nonsense"]}, "cannot-edit"),
        ("whatif", {"path": "*.json"}, "several-runs"),
        ("explain", {}, "wrong-arguments"),
        ("explain", {"paths": "trace.json"}, "wrong-arguments"),
        ("explain", {"paths": []}, "wrong-arguments"),
        ("explain", {"paths": ["trace.json"], "redact": False}, "wrong-arguments"),
        ("ops", {"path": "trace.json", "limit": 0}, "wrong-arguments"),
        ("ops", {"path": "trace.json", "view": "x"}, "wrong-arguments"),
        ("run", {}, "wrong-arguments"),
    ],
)
def test_failures_have_the_name_of_the_error_and_the_next_action(folder, tool, arguments, slug):
    found = failed(folder, tool, **arguments)
    assert found.slug == slug
    assert str(found).endswith(f"{found.todo}. [{slug}]")
    assert "Traceback" not in str(found)


def test_numbers_may_be_texts(folder):
    assert len(answered(folder, "ops", path="trace.json", limit="1").data["nodes"]) == 1


def test_remote_addresses_are_read_only_if_allowed(tmp_path):
    request = Request(
        "explain", {"paths": ["https://127.0.0.1:9/t.json"]}, (str(tmp_path),), allow_remote=True
    )
    assert answer(request).slug in ("unreachable", "missing-package")


# --- limits, names and secrets ---


@pytest.mark.parametrize("tool", ["explain", "ops", "sql", "whatif"])
def test_answers_are_limited_in_size(tmp_path, tool):
    (tmp_path / "t.json").write_text(many_ops(2000))
    arguments = {"path": "t.json"}
    if tool == "explain":
        arguments = {"paths": ["t.json"], "show_all": True, "limit": 1}
    elif tool == "ops":
        arguments |= {"limit": 1000}
    elif tool == "sql":
        pytest.importorskip("duckdb")
        arguments |= {"query": "select * from slices", "limit": 1000}
    found = answered(tmp_path, tool, **arguments)
    assert size_of(found.data) <= MOST_DATA
    assert len(found.text) <= MOST_TEXT + 2000
    assert all(one["what"] in found.text for one in found.data["left_out"])
    if tool != "whatif":
        assert found.data["left_out"]


def texts_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


CALLS = {
    "explain": {"paths": ["t.json"], "show_all": True},
    "ops": {"path": "t.json"},
    "whatif": {"path": "t.json"},
    "compare": {"a": "t.json", "b": "t.json"},
    "sql": {"path": "t.json", "query": "select * from slices"},
    "runs": {},
}


@pytest.mark.parametrize("tool", CALLS)
def test_hostile_names_stay_text(tmp_path, tool):
    if tool == "sql":
        pytest.importorskip("duckdb")
    (tmp_path / "t.json").write_text(hostile_trace())
    (tmp_path / "\x1b]0;P\x07\u202e.json").write_text("{}")
    found = answered(tmp_path, tool, **CALLS[tool])
    texts = [found.text, *texts_of(found.data)]
    assert [text for text in texts if HARMFUL.search(text.replace("\t", ""))] == []
    assert not any(line.startswith("FORGED") for line in found.text.splitlines())


@pytest.mark.parametrize("tool", CALLS)
def test_secrets_are_redacted(tmp_path, monkeypatch, tool):
    if tool == "sql":
        pytest.importorskip("duckdb")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("stepwhy.base.redaction.redactor.machine_name", lambda: HOST)
    written = PLACES["operation"](tmp_path, [text for text, _ in MARKERS.values()])
    arguments = json.loads(json.dumps(CALLS[tool]).replace("t.json", written.name))
    found = call(tmp_path, tool, **arguments)
    shown = without_layout(f"{found.text} {found.data}" if isinstance(found, Answer) else "")
    assert shown
    assert [n for n, (_, secret) in MARKERS.items() if without_layout(secret) in shown] == []
