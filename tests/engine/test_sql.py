"""SQL over the tables of a run: texts, names, nulls, views, several ranks, and what is refused."""

import resource
import threading
from types import SimpleNamespace

import pytest

from stepwhy.apps.sql import Limits, RunTables, answer, open_tables
from stepwhy.apps.sql import limits as limits_module
from stepwhy.apps.sql.database import database_of
from stepwhy.apps.sql.limits import Clock
from stepwhy.apps.sql.tables import NAMES
from stepwhy.base.errors import QueryError, QueryLimitError, SeveralRunsError
from stepwhy.engine.explain import explain_opened
from stepwhy.engine.rank_sets import Opened
from stepwhy.result import CATEGORIES
from stepwhy.trace.notation import parse
from stepwhy.trace.schema import TABLES, columns_of
from tests.engine.rank_files import write_set
from tests.engine.test_explain import kineto

pytest.importorskip("duckdb")

DRAWING = """
unit: 1 ms
framework: pytorch
main   step   |[--------][--------][--------]|
main   input  |ddd       ddd       ddd       |  d=DataLoader.__next__
main   op     |   ooo       ooo       ooo    |  o=aten::mm {source: train.py(7): step}
main   launch |   l         l         l      |  l=cudaLaunchKernel
GPU:0  kernel |    [gemm]    [gemm]    [gemm]|
GPU:0  memcpy |   c         c         c      |  c=Memcpy HtoD {copy: h2d; bytes: 4 MiB}
arrows: l -> gemm
"""
RANK = "rank: {0}\nworld_size: 2\n"


def tables_of(*drawings):
    return RunTables([Opened(f"{n}.json", "drawing", parse(d)) for n, d in enumerate(drawings)])


def rows(tables, query, limits=None):
    found = answer(database_of(tables, query, limits), query, limits)
    return [row for batch in found.batches for row in batch]


@pytest.fixture(scope="module")
def tables():
    return tables_of(DRAWING)


@pytest.fixture(scope="module")
def ranks():
    return tables_of(RANK.format(0) + DRAWING, RANK.format(1) + DRAWING)


# --- Tables ---


def test_texts_names_and_nulls_replace_the_numbers_of_the_schema(tables):
    query = "select distinct name, kind, copy, bytes, source, phase, rank from slices order by name"
    assert rows(tables, query) == [
        ("DataLoader.__next__", "input", None, None, None, None, None),
        ("Memcpy HtoD", "memcpy", "h2d", 4 << 20, None, None, None),
        ("aten::mm", "op", None, None, "train.py(7): step", None, None),
        ("cudaLaunchKernel", "launch", None, None, None, None, None),
        ("gemm", "kernel", None, None, None, None, None),
        ("step", "step", None, None, None, None, None),
    ]


def test_zero_is_null_only_where_it_means_not_recorded():
    marks = "marks: start_ns | dur_ns | profiled | light\n0 ms | 5 ms | 0 | 0\n\n"
    samples = "samples: line | package | count | role\na.py(1): f | | 3 | driver\n"
    found = rows(tables_of(f"{marks}{samples}"), "select light, role from marks, samples")
    assert found == [(0, "driver")]


def test_rows_of_other_tables_are_joined_by_number(tables):
    query = """select d.name, t.role, count(*) from slices s join tracks t on t.row = s.track
    join devices d on d.row = t.device group by all"""
    assert rows(tables, query) == [("GPU:0", "stream", 6)]


@pytest.mark.parametrize("name", NAMES)
def test_columns_have_the_documented_names_and_types(tables, name):
    documented = [(c.column, c.type) for c in tables.describe() if c.table == name]
    if name == "findings":  # of the run, not of a rank
        documented = [pair for pair in documented if pair[0] != "rank"]
    query = f"describe {name}"
    assert [(column, kind) for column, kind, *_ in rows(tables, query)] == documented


def test_every_column_of_the_schema_is_described(tables):
    described = {(c.table, c.column) for c in tables.describe()}
    assert {(t, c.name) for t in TABLES for c in columns_of(t)} <= described
    assert {c.rows for c in tables.describe() if c.table == "slices"} == {18}


def test_surrogates_in_names_become_replacement_characters():
    drawing = DRAWING.replace("gemm]", "g\ud800m]").replace("-> gemm", "-> g\ud800m")
    assert rows(tables_of(drawing), "select distinct name from slices where kind = 'kernel'") == [
        ("g\ufffdm",)
    ]


def test_an_empty_trace_has_all_tables():
    tables = tables_of("framework: pytorch")
    assert {name: len(rows(tables, f"from {name}")) for name in TABLES} == dict.fromkeys(TABLES, 0)


# --- Views ---


def test_steps_and_breakdown_are_those_of_the_passes(tables):
    ms = 1_000_000
    assert rows(tables, "select number, start_ns, end_ns, dur_ns, steady from steps") == [
        (1, 0, 10 * ms, 10 * ms, True),
        (2, 10 * ms, 20 * ms, 10 * ms, True),
        (3, 20 * ms, 30 * ms, 10 * ms, True),
    ]
    found = rows(tables, "select category, ns from breakdown where step = 2")
    assert [category for category, _ in found] == list(CATEGORIES)
    assert dict(found)["compute"] == 6 * ms
    assert sum(ns for _, ns in found) == 10 * ms


def test_lines_add_up_to_the_step(tables):
    found = rows(tables, "select line, kind, category, phase, ns from lines")
    result = explain_opened([Opened("x", "drawing", parse(DRAWING))], [])
    assert result.lines is not None
    assert sum(ns for *_, ns in found) == result.breakdown.wall_ns
    assert ("train.py(7): step", "line", "compute", None, 6_000_000) in found
    assert rows(tables, "select line, op, phase, count, ns from line_ops") == [
        ("train.py(7): step", "aten::mm", None, 1.0, 6_000_000)
    ]


MODULES = """
unit: 1 ms
framework: pytorch
main   step    |[--------][--------]|
main   python  |nnnnnnnnnnnnnnnnnnnn|  n=nn.Module: Net_0
main   op      |mmmmmmaaaammmmmmaaaa|  m=mm {source: a.py(7): f}  a=add {source: a.py(7): f}
"""


def test_operations_of_a_line_with_most_of_the_step_have_a_module():
    found = rows(tables_of(MODULES), "select module, op, ns from line_ops")
    assert found == [("Net_0", "mm", 6_000_000), ("Net_0", "add", 4_000_000)]


def test_a_trace_without_lines_has_the_views_of_lines():
    tables = tables_of("framework: pytorch")
    assert rows(tables, "from lines") == rows(tables, "from line_ops") == []


def test_steps_of_the_warm_up_are_not_steady():
    slow = DRAWING.replace("|[--------]", "|[-----------------------------]", 1)
    rest = slow.splitlines()
    moved = [rest[0], *(line.replace("|", "|" + 20 * " ", 1) for line in rest[4:9])]
    drawing = "\n".join([*rest[1:4], *moved[1:], rest[9]])
    found = rows(
        tables_of(drawing),
        "select distinct s.steady, b.steady from steps s, breakdown b "
        "where b.step = s.number and number = 1",
    )
    assert found == [(False, False)]


def test_ops_are_means_of_the_steady_steps_as_in_the_result(tables):
    query = "select name, device, phase, count, total_ns, self_ns, bytes from ops order by name"
    result = explain_opened([Opened("x", "drawing", parse(DRAWING))], [])
    expected = [
        (o.name, o.device, None if o.phase == "unknown" else o.phase, o.count, o.total_ns,
         o.self_ns, o.bytes)
        for o in sorted(result.ops, key=lambda o: o.name)
    ]  # fmt: skip
    assert rows(tables, query) == expected
    assert len(expected) >= 3


def test_findings_have_predicted_savings(tables):
    query = "select id, cost_ns, saving_low_ns, saving_high_ns from findings where verdict='found'"
    result = explain_opened([Opened("x", "drawing", parse(DRAWING))], [])
    found = [f for f in result.findings if f.verdict == "found"]
    assert rows(tables, query) == [
        (f.id, f.cost_ns_per_step, f.saving and f.saving.low_ns, f.saving and f.saving.high_ns)
        for f in found
    ]
    assert any(f.saving for f in found)


# --- Ranks ---


def test_rows_of_several_ranks_are_numbered_together(ranks):
    query = """select s.rank, t.rank, count(*), min(s.row), max(s.row) from slices s
    join tracks t on t.row = s.track group by all order by 1"""
    assert rows(ranks, query) == [(0, 0, 18, 0, 17), (1, 1, 18, 18, 35)]


def test_views_have_the_rank(ranks):
    assert rows(ranks, "select rank, count(*) from steps group by rank order by rank") == [
        (0, 3),
        (1, 3),
    ]
    assert rows(ranks, "select count(*) from findings where verdict = 'found'") > [(0,)]


def test_ranks_are_those_of_the_result(tmp_path):
    for rank in (10, 2):
        (tmp_path / f"{rank}.json").write_text(kineto(rank, world=16, slow=rank))
    tables = open_tables(str(tmp_path))
    found = rows(tables, "select rank, step_ns, work_ns, late_ns, operation from ranks")
    result = explain_opened(tables._opened, [])
    assert found == [(r.rank, r.step_ns, r.work_ns, r.late_ns, None) for r in result.ranks]
    assert [rank for rank, *_ in found] == [2, 10]


def test_the_steps_of_ranks_have_work_and_waits(tmp_path):
    write_set(tmp_path, [[2000.0] * 6] * 3 + [[2000.0] * 5 + [2500.0]])
    query = """select rank, round(wait_ns / 1e3), round(work_ns / 1e3) from rank_steps
    where step = (select max(step) from rank_steps) order by rank"""
    found = rows(open_tables(str(tmp_path)), query)
    assert [(rank, wait) for rank, wait, _ in found] == [(0, 500), (1, 500), (2, 500), (3, 0)]
    assert found[3][2] - found[0][2] == 500


def test_a_single_rank_is_not_compared(tables):
    assert rows(tables, "from ranks") == []
    assert rows(tables, "from rank_steps") == []


def test_files_of_one_run_are_ranks_and_others_are_refused(tmp_path):
    for rank in range(2):
        (tmp_path / f"{rank}.json").write_text(kineto(rank, world=2))
    found = rows(open_tables(str(tmp_path)), "select distinct rank from steps order by rank")
    assert found == [(0,), (1,)]
    (tmp_path / "1.json").write_text(kineto(0, world=2, slow=2))
    with pytest.raises(SeveralRunsError):
        open_tables(str(tmp_path))


# --- What is built ---


def test_only_the_tables_that_a_query_names_are_built(tables, monkeypatch):
    built = []
    monkeypatch.setattr(RunTables, "arrow", lambda _self, name: built.append(name))
    monkeypatch.setattr("duckdb.DuckDBPyConnection.register", lambda *_: None, raising=True)
    database_of(tables, "select 1 from \"Slices\" where kind = 'x'")
    assert built == ["slices"]


def test_a_query_that_names_none_sees_all(tables):
    assert [name for (name,) in rows(tables, "show tables")] == sorted(NAMES)


# --- Answers ---


def test_repeated_columns_get_a_number(tables):
    query = "select number, number, 1 as number_1 from steps"
    assert answer(database_of(tables, query), query).columns == ("number", "number_1", "number_1_1")


def test_the_answer_is_that_of_the_last_statement(tables):
    query = "create macro ms(ns) as ns / 1e6; select ms(dur_ns) from steps limit 1"
    assert rows(tables, query) == [(10.0,)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("selec", "Parser Error"),
        ("select nothing from steps", "nothing"),
        ("select * from kernels", "kernels"),
        ("select 'x'::int", "Conversion Error"),
    ],
)
def test_wrong_queries_are_typed_errors_with_the_next_action(tables, query, message):
    with pytest.raises(QueryError) as raised:
        rows(tables, query)
    assert message in raised.value.what
    assert "LINE 1" not in raised.value.what
    tables_are = "steps, breakdown, lines, line_ops, ops, ranks, rank_steps, findings, devices"
    assert (tables_are in raised.value.todo) == (message == "kernels")
    assert "--tables" in raised.value.todo


def test_an_error_in_the_middle_of_the_rows_is_typed(tables):
    query = "select (case when range = 200000 then 'x' else '1' end)::int from range(300000)"
    with pytest.raises(QueryError):
        rows(tables, query)


# --- Safety ---


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder that queries must neither read nor write, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "secret.csv").write_text("a,b\nhunter2,1\n")
    return tmp_path


REFUSED = [
    "select * from '{0}/secret.csv'",
    "select * from read_csv('{0}/secret.csv')",
    "select * from read_text('{0}/secret.csv')",
    "select * from read_blob('secret.csv')",
    "select * from glob('{0}/*')",
    "select * from sniff_csv('{0}/secret.csv')",
    "copy (select 1) to '{0}/out.csv'",
    "copy steps to '/dev/stdout'",
    "export database '{0}/out'",
    "import database '{0}/out'",
    "attach '{0}/out.duckdb'",
    "create persistent secret s (type http, bearer_token 'x')",
    "install httpfs",
    "load httpfs",
    "load '{0}/out.duckdb_extension'",
    "select * from 'https://127.0.0.1:9/a.csv'",
    "select * from 's3://bucket/a.parquet'",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset lock_configuration",
    "set temp_directory = '{0}/out'",
    "set log_query_path = '{0}/out'",
    "set profiling_output = '{0}/out'",
    "select * from python_variable",
]


@pytest.mark.parametrize("query", REFUSED)
def test_queries_reach_neither_files_nor_the_network_nor_settings(tables, files, query):
    python_variable = {"a": [1]}  # noqa: F841 - DuckDB would find it by its name
    with pytest.raises(QueryError) as raised:
        rows(tables, query.format(files))
    assert "hunter2" not in str(raised.value)
    assert sorted(path.name for path in files.iterdir()) == ["secret.csv"]


def test_what_does_not_fit_into_memory_is_not_written_to_the_disk(tables, files):
    assert rows(tables, "select current_setting('temp_directory')") == [("",)]
    assert rows(tables, "select max(a) from (select a from range(100000) t(a) order by hash(a))")
    assert sorted(path.name for path in files.iterdir()) == ["secret.csv"]


# --- Limits ---

LARGE = "from range(3000000) a(i), range(1000000) b(j)"


@pytest.mark.parametrize(
    "query",
    [
        f"select a.i {LARGE} order by b.j * a.i % 977, a.i limit 1 offset 10000000",
        f"select i * 3000000 + j as k, count(*) {LARGE} group by k order by k limit 1",
        f"select len(list(i)) {LARGE}",
        f"select length(string_agg(i::varchar || j, ',')) {LARGE}",
        "select range(1000000000)",
        "select list(i) from range(100000000) t(i)",  # Python's objects are larger than DuckDB's
    ],
)
def test_a_query_gets_only_so_much_memory(tables, query):
    limits = Limits(memory_bytes=300_000_000, time_s=600)
    with pytest.raises(QueryLimitError, match="more than 286 MiB of memory") as caught:
        rows(tables, query, limits)
    assert "--memory-limit" in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r",
        f"select sum(hash(i) % 7 * (hash(j) % 5)) {LARGE}",
        f"select i, j {LARGE}",
    ],
)
def test_a_query_gets_only_so_much_time(tables, query):
    limits = Limits(memory_bytes=1_000_000_000, time_s=0.2)
    with pytest.raises(QueryLimitError, match="takes more than 200 ms") as caught:
        rows(tables, query, limits)
    assert "--time-limit" in str(caught.value)


def test_the_limits_end_with_the_query(tables):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(QueryLimitError):
        rows(tables, f"select len(list(i)) {LARGE}", Limits(memory_bytes=50_000_000, time_s=600))
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert rows(tables, "select 1") == [(1,)]


def test_the_time_of_the_reader_does_not_count():
    limits = Limits(memory_bytes=1_000_000_000, time_s=1000)
    clock = Clock(None, limits)
    with clock.running():
        pass
    assert clock._left_s > 900


def test_an_interrupt_that_duckdb_forgets_is_repeated():
    """Whatever comes before a query begins to execute, as on a busy machine, has no effect."""
    twice = threading.Semaphore(0)
    clock = Clock(SimpleNamespace(interrupt=twice.release), Limits(memory_bytes=1, time_s=0))
    with clock.running():
        assert twice.acquire(timeout=120)
        assert twice.acquire(timeout=120)
    assert clock.is_over


def test_the_default_memory_is_a_part_of_what_is_free(monkeypatch):
    monkeypatch.setattr(limits_module, "available_bytes", lambda: 1_000_000_000)
    assert limits_module.limits_of().memory_bytes == 500_000_000
    monkeypatch.setattr(limits_module, "available_bytes", lambda: None)
    assert limits_module.limits_of().memory_bytes == limits_module.MOST_BYTES
    assert limits_module.limits_of(7, 8) == Limits(7, 8)
