import numpy as np
import pytest

from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Phase, Role
from stepwhy.trace.kinds import SampleRole
from stepwhy.trace.notation import NotationError, parse, parse_quantity


def names(trace):
    return [trace.string(int(i)) for i in trace.slices.name]


def test_runs_of_letters_and_brackets_are_slices():
    trace = parse("unit: 2 us\nmain op |aa.bb [mm--]|  a=aten::add")
    assert names(trace) == ["aten::add", "b", "mm"]
    assert trace.slices.start_ns.tolist() == [0, 6_000, 12_000]
    assert trace.slices.dur_ns.tolist() == [4_000, 4_000, 12_000]


def test_adjacent_brackets_are_two_slices():
    trace = parse("main step |[--][--]|")
    assert names(trace) == ["step", "step"]
    assert trace.slices.start_ns.tolist() == [0, 4_000_000]


def test_tracks():
    trace = parse(
        """
        main                 op     |a|
        main                 input  |b|
        GPU:0                kernel |c|
        GPU:0/7              kernel |d|
        /job:ps/task:0 CPU:0 kernel |e|
        """
    )
    roles = [Role(int(r)) for r in trace.tracks.role]
    assert roles == [Role.HOST_THREAD, Role.STREAM, Role.STREAM, Role.EXECUTOR]
    assert trace.tracks.thread.tolist() == [0, 0, 7, 0]
    assert trace.tracks.device.tolist() == [NULL, 0, 0, 1]
    assert [trace.string(int(n)) for n in trace.devices.name] == ["GPU:0", "/job:ps/task:0 CPU:0"]
    assert trace.devices.kind.tolist() == [DeviceKind.GPU, DeviceKind.CPU]


def test_attributes():
    trace = parse(
        "GPU:0 memcpy |c|  c=Memcpy HtoD {copy: h2d; bytes: 4 MiB; pageable: yes; phase: input;"
        " scope: tower_0/x; source: train.py(3): main; sequence: 5}"
    )
    row = {name: int(column[0]) for name, column in vars(trace.slices).items()}
    assert names(trace) == ["Memcpy HtoD"]
    assert (row["copy"], row["bytes"], row["pageable"]) == (Copy.H2D, 4 << 20, 1)
    assert (row["phase"], row["sequence"]) == (Phase.INPUT, 5)
    assert trace.string(row["scope"]) == "tower_0/x"
    assert trace.string(row["source"]) == "train.py(3): main"


def test_arrows_join_calls_with_work_in_order():
    trace = parse("main launch |l l |\nGPU:0 kernel | [g][g]|\narrows: l -> g")
    slices = trace.slices
    calls = slices.correlation[slices.kind == Kind.LAUNCH]
    work = slices.correlation[slices.kind == Kind.KERNEL]
    assert calls.tolist() == work.tolist() == [1, 2]


def test_tables():
    trace = parse(
        """
        nodes: name | op | requested | actual
        a | Conv2D |  | CPU:0
        b | MatMul | GPU:0 | -

        copies: source | target | from_device | to_device | bytes | dur_ns
        a | b | CPU:0 | GPU:0 | 2 KiB | 3 us

        counters: name | time_ns | value
        memory allocated | 1 ms | 1 GiB

        marks: start_ns | dur_ns | profiled
        0 | 5 ms | 0
        """
    )
    assert [trace.string(int(r)) for r in trace.nodes.requested] == ["", "GPU:0"]
    assert trace.nodes.requested[0] != NULL
    assert trace.nodes.actual[1] == NULL
    assert (trace.copies.source[0], trace.copies.target[0]) == (0, 1)
    assert (trace.copies.bytes[0], trace.copies.dur_ns[0]) == (2048, 3000)
    assert (trace.counters.time_ns[0], trace.counters.value[0]) == (10**6, 1 << 30)
    assert (trace.marks.dur_ns[0], trace.marks.graph_ns[0]) == (5_000_000, NULL)


def test_signals_are_those_of_what_is_drawn():
    drawing = "main op |a|\nGPU:0 kernel | k|"
    assert parse(drawing).meta.signals == {"host-ops", "device-activity"}
    changed = parse(f"signals: +memory -host-ops\n{drawing}").meta.signals
    assert changed == {"device-activity", "memory"}
    assert parse(f"signals: python-stacks\n{drawing}").meta.signals == {"python-stacks"}


def test_facts_about_the_run():
    meta = parse("format: kineto\nframework: pytorch\nrank: 1\nworld_size: 8\n# a comment").meta
    assert (meta.format, meta.framework, meta.rank, meta.world_size) == ("kineto", "pytorch", 1, 8)
    assert not meta.device_expected
    assert parse("expects: accelerator").meta.device_expected
    assert parse("GPU:0 kernel |k|").meta.device_expected
    assert not parse("CPU:0 kernel |k|").meta.device_expected


def test_an_empty_drawing_is_an_empty_trace():
    assert len(parse("").slices) == 0


def test_health_counts_what_is_drawn():
    health = parse("main op |a b|").health
    assert health.events_read == health.events_kept == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("main op aaa", "neither a fact"),
        ("main nonsense |a|", "NONSENSE"),
        ("main op |a|  aten::add", "not an entry"),
        ("main op |a|  a=x {colour: red}", "not an attribute"),
        ("GPU:0 memcpy |a|  a=x {copy: sideways}", "SIDEWAYS"),
        ("unit: 3 fortnights\nmain op |a|", "not a quantity"),
        ("nodes: name | op\na", "1 cells under 2 columns"),
        ("nodes: name | colour\na | red", "no column"),
        ("copies: source\nnowhere", "nowhere"),
        ("main op |a|\narrows: a -> b", "equally many"),
        ("main op |a|\narrows: a", "equally many"),
    ],
)
def test_error_names_the_problem(line, problem):
    with pytest.raises(NotationError, match=problem):
        parse(line)


def test_the_line_is_named():
    with pytest.raises(NotationError, match=r"Line 3: 'main zip \|a\|'"):
        parse("unit: 1 ms\n\nmain zip |a|")


@pytest.mark.parametrize(
    ("text", "value"),
    [("17", 17), ("3 ms", 3_000_000), ("1.5us", 1500), ("2 GiB", 2 << 30), ("-4 ns", -4)],
)
def test_quantities(text, value):
    assert parse_quantity(text) == value


def test_rows_are_ordered_by_time():
    trace = parse("main op |  b a|\nmain input |c    |")
    assert np.all(np.diff(trace.slices.start_ns) >= 0)
    assert names(trace) == ["c", "b", "a"]


def test_stack_samples_are_drawn_as_a_table():
    trace = parse(
        "unit: 1 ms\n"
        "samples: line | package | count | role\n"
        "data.py(31): decode | PIL | 7 | worker\n"
        "train.py(3): main |  | 2 | driver\n"
    )
    samples = trace.samples
    assert [trace.string(int(n)) for n in samples.line] == [
        "data.py(31): decode",
        "train.py(3): main",
    ]
    assert list(samples.count) == [7, 2]
    assert list(samples.role) == [SampleRole.WORKER, SampleRole.DRIVER]
