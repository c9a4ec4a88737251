"""The op table over the steady steps."""

from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.trace import Kind


def ops_of(trace):
    return Facts(trace).ops.largest(100)


def rows_of(line):
    return {(r.name, r.device): r for r in ops_of(line.trace())}


def test_operations_are_summed_by_name_device_and_kind():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.OP, 0, 10, name="linear")
    line.add(main, Kind.OP, 2, 8, name="mm")
    line.add(main, Kind.OP, 20, 30, name="linear", bytes=64)
    line.add(line.stream("GPU:0"), Kind.KERNEL, 5, 25, name="gemm")
    line.add(line.stream("GPU:1"), Kind.KERNEL, 5, 10, name="gemm")
    table = rows_of(line)
    linear = table["linear", "host"]
    assert (linear.count, linear.total_ns, linear.self_ns) == (2, 20 * MS, 14 * MS)
    assert linear.bytes == 64
    assert table["mm", "host"].bytes is None
    assert table["gemm", "GPU:0"].total_ns == 20 * MS
    assert table["gemm", "GPU:1"].total_ns == 5 * MS


def test_sizes_are_summed_where_they_are_recorded():
    line = Timeline().steps(0, 100)
    for i in range(9):
        line.add(line.thread(), Kind.OP, 10 * i, 10 * i + 5, name=f"op {i % 2}")
        line.copy(10 * i, 10 * i + i, size=i)
    assert sorted((row.count, row.bytes) for row in ops_of(line.trace()) if row.bytes) == [(9, 36)]
    assert [row.count for row in ops_of(line.trace())] == [9, 5, 4]


def test_the_largest_self_time_comes_first():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 50, name="outer")
    line.add(line.thread(), Kind.OP, 1, 49, name="inner")
    assert [r.name for r in ops_of(line.trace())] == ["inner", "outer"]


def test_of_each_device_the_largest_are_kept():
    line = Timeline(unit_ns=1).steps(0, 1000)
    for device in ("GPU:0", "GPU:1"):
        stream = line.stream(device)
        for number, dur_ns in enumerate((5, 9, 7, 9, 7)):
            start_ns = 100 * number
            line.add(stream, Kind.KERNEL, start_ns, start_ns + dur_ns, name=f"k{number}")
    line.add(line.thread(), Kind.OP, 0, 1, name="op")
    table = Facts(line.trace()).ops
    assert len(table) == 11
    kept = [(r.name, r.device, r.self_ns) for r in table.largest(3)]
    assert kept == [
        ("k1", "GPU:0", 9),
        ("k1", "GPU:1", 9),
        ("k3", "GPU:0", 9),
        ("k3", "GPU:1", 9),
        ("k2", "GPU:0", 7),
        ("k2", "GPU:1", 7),
        ("op", "host", 1),
    ]


def test_of_equal_self_times_the_first_names_are_kept():
    line = Timeline(unit_ns=1).steps(0, 1000)
    for number, name in enumerate(("e", "b", "longest", "d", "a", "c")):
        end_ns = 100 * number + (9 if name == "longest" else 5)
        line.add(line.thread(), Kind.OP, 100 * number, end_ns, name=name)
    table = Facts(line.trace()).ops
    assert [r.name for r in table.largest(3)] == ["longest", "a", "b"]
    assert [r.name for r in table.largest(6)] == ["longest", "a", "b", "c", "d", "e"]


def test_warm_up_and_what_lies_between_steps_are_left_out():
    line = Timeline().steps(0, 90, 100, 110).steps(200, 210)
    main = line.thread()
    line.add(main, Kind.OP, 10, 20, name="op of the warm-up")
    line.add(main, Kind.OP, 91, 92, name="op of a step")
    line.add(main, Kind.OP, 120, 190, name="op of the evaluation")
    line.add(main, Kind.OP, 201, 202, name="op of a step")
    line.add(main, Kind.OP, 211, 212, name="op after the last step")
    facts = Facts(line.trace())
    assert facts.steps.warm_up == 1
    assert [(r.name, r.count) for r in facts.ops.largest(100)] == [("op of a step", 2)]


def test_sums_of_absurd_times_stay_exact():
    line = Timeline(unit_ns=1).steps(0, 2**62)
    for number in range(3):
        line.add(line.thread(f"thread {number}"), Kind.OP, 1, 2**61 + 8, name="op")
    (op,) = ops_of(line.trace())
    assert op.total_ns == 3 * (2**61 + 7)


def test_where_there_is_nothing_else_ranges_stand_for_operations():
    line = Timeline().steps(0, 100)
    for at, kind in enumerate((Kind.ANNOTATION, Kind.PYTHON, Kind.WAIT, Kind.OTHER)):
        line.add(line.thread(), kind, 10 * at, 10 * at + 5)
    assert ops_of(line.trace()) == []
    limited = ops_of(line.trace(limit="why"))
    assert [r.name for r in limited] == ["OTHER", "WAIT"]
    named = ops_of(line.trace(limit="why", signals=frozenset({"ranges"})))
    assert [r.name for r in named] == ["ANNOTATION", "OTHER", "PYTHON", "WAIT"]


def test_annotations_and_markers_are_no_operations():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.ANNOTATION, 0, 5)
    assert ops_of(line.trace()) == []
    assert ops_of(Timeline().trace()) == []
