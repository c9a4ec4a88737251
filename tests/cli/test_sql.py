"""The command `stepwhy sql`."""

import importlib
import json
import sys

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.trace.schema import TABLES
from tests.kineto_samples import sample

pytest.importorskip("duckdb")
COUNT = "select kind, count(*) as n from slices group by kind order by kind limit 2"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(sample("2024 fractional"))
    return path


def invoke(*args, stdin=None):
    return CliRunner().invoke(cli, ["sql", *map(str, args)], input=stdin)


def test_table(trace):
    lines = invoke(trace, COUNT).stdout.strip("\n").splitlines()
    assert lines[0].split() == ["kind", "n"]
    assert len(lines) == 3


def test_json_and_csv_have_the_same_rows(trace):
    found = json.loads(invoke(trace, COUNT, "--format", "json").stdout)
    lines = [",".join(map(str, row.values())) for row in found]
    assert invoke(trace, COUNT, "--format", "csv").stdout.splitlines() == ["kind,n", *lines]
    assert len(found) == 2


@pytest.mark.parametrize("query", [[], ["-"]])
def test_query_from_standard_input(trace, query):
    done = invoke(trace, *query, "--format", "csv", stdin=f"{COUNT};\n")
    assert done.stdout == invoke(trace, COUNT, "--format", "csv").stdout


def test_an_empty_query_is_wrong_usage(trace):
    assert invoke(trace, "-", stdin=" \n").exit_code == 2


def test_without_a_query_all_tables_are_listed(trace):
    done = invoke(trace, stdin="")
    assert done.exit_code == 0
    assert done.stdout == invoke(trace, "--tables").stdout
    assert "stepwhy sql PATH 'select * from steps'" in done.stderr


def test_a_terminal_is_not_waited_for(monkeypatch):
    module = importlib.import_module("stepwhy.cli.sql")
    monkeypatch.setattr(module.sys, "stdin", type("", (), {"isatty": lambda _: True})())
    assert module._text_of(None) is None


def test_wrong_sql_is_a_typed_error(trace):
    done = invoke(trace, "select nothing from slices")
    assert done.exit_code == 9
    assert done.stderr.startswith("stepwhy: the query fails: Binder Error: Referenced column ")
    assert done.stderr.endswith("lists the tables and their columns. [cannot-query]\n")


def test_a_misspelt_table_is_told_with_one_mark_at_the_end(trace):
    assert 'Did you mean "steps"? The tables are steps, ' in invoke(trace, "from stepz").stderr
    assert "The tables are" not in invoke(trace, "select nam from ops").stderr


def test_tables_are_listed_with_rows_columns_and_meaning(trace):
    found = json.loads(invoke(trace, "--tables", "--format", "json").stdout)
    assert {c["table"] for c in found} == {
        *TABLES,
        "steps",
        "breakdown",
        "ops",
        "findings",
        "lines",
        "line_ops",
        "ranks",
        "rank_steps",
    }
    (dur,) = [c for c in found if (c["table"], c["column"]) == ("slices", "dur_ns")]
    (slices,) = json.loads(
        invoke(trace, "select count(*) as n from slices", "--format", "json").stdout
    )
    assert dur == {
        "table": "slices",
        "rows": slices["n"],
        "column": "dur_ns",
        "type": "BIGINT",
        "unit": "ns",
        "meaning": "Duration, never negative.",
    }
    text = invoke(trace, "--tables").stdout
    assert f"\nslices  {slices['n']} rows\n" in text
    assert "Duration, never negative. (ns)" in text


def test_the_extra_is_named_before_the_trace_is_read(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = invoke(tmp_path / "missing.json", "select 1")
    assert done.exit_code == 3
    assert "[sql]" in done.stderr


def test_ctrl_c_ends_the_query():
    database = importlib.import_module("stepwhy.apps.sql.database")

    class Interrupted:
        @staticmethod
        def execute(_query):
            raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        database.answer(Interrupted(), "select 1")


def test_nothing_is_printed_at_exit(trace):
    import subprocess

    command = [sys.executable, "-m", "stepwhy", "sql", str(trace), COUNT, "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--memory-limit", "0.05", "--time-limit", "1000"], "more than 47.7 MiB of memory"),
        (["--time-limit", "0.2"], "takes more than 200 ms"),
    ],
)
def test_a_query_has_limits(trace, option, said):
    query = "select len(list(i)), sum(hash(i) % 7) from range(9000000) a(i), range(1000000) b(j)"
    done = invoke(trace, query, *option)
    assert done.exit_code == 9
    assert said in done.stderr
    assert done.stderr.endswith(f"with a higher {option[0]}. [query-limit]\n")


def test_csv_holds_no_formula(trace):
    query = "select '=1+1' as a, -1.5 as b, '@x' as \"-c\""
    assert invoke(trace, query, "--format", "csv").stdout == "a,b,'-c\n'=1+1,-1.5,'@x\n"
