"""tfprof's profiles: hand-made messages, damaged ones, and TensorFlow's own."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.read import tf_samples
from tests.read.tf_samples import EPOCH_US, counters, nodes, slices, source_of, tracks
from tests.read.tfprof_samples import GPU, STREAMS, node, on_gpu, one_step, profile, ran

from stepwhy.analyse.answers.op_costs import op_costs
from stepwhy.analyse.answers.op_views import view, why_not
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, EmptyInputError, StepwhyError
from stepwhy.read.formats.run_metadata import reader as run_metadata
from stepwhy.read.formats.tensorboard import reader as tensorboard
from stepwhy.read.formats.tf_timeline import reader as tf_timeline
from stepwhy.read.formats.tfprof import profile_chunks
from stepwhy.read.formats.tfprof import reader as importer
from stepwhy.read.formats.xplane import reader as xplane
from stepwhy.read.registry import read_trace
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.result.reasons import Cut
from stepwhy.trace import NULL, Kind
from stepwhy.trace.integrity import check

TRACES = os.environ.get("STEPWHY_TRACES")


def read(message):
    source = source_of(message.SerializeToString())
    assert importer.recognise(source)
    trace = importer.read(source)
    check(trace)
    return trace


def test_ops_with_the_time_that_they_took_themselves():
    trace = read(one_step())
    assert slices(trace) == [
        ("executor 0", "KERNEL", "Placeholder", "x", "FORWARD", 0, 1),
        ("executor 0", "KERNEL", "Identity", "tower/w/read", "FORWARD", 2, 1),
        ("executor 0", "KERNEL", "MatMul", "tower/MatMul", "FORWARD", 10, 40),
        ("executor 1", "KERNEL", "Relu", "tower/Relu", "FORWARD", 45, 20),
        ("executor 0", "KERNEL", "NoOp", "step", "OTHER", 70, 1),
    ]
    assert tracks(trace)[0] == ("EXECUTOR", "executor 0", "CPU:0")
    assert trace.meta.signals == {"whole-step", "host-ops", "device-activity", "placement"}
    assert (trace.health.events_read, trace.health.events_kept) == (5, 5)
    assert counters(trace) == {}


def test_memory_is_that_of_the_run_which_ended_when_it_was_recorded():
    trace = read(one_step())
    rows = trace.executions
    assert trace.slices.bytes.tolist() == [NULL, NULL, 4000, 4000, NULL]
    assert rows.op_ns.tolist() == [1000, 1000, 40_000, 20_000, 1000]
    # Nothing at all of the last one: whether it asked for none was not recorded.
    assert rows.requested_bytes.tolist() == [NULL, NULL, 4096, 0, NULL]
    assert rows.peak_bytes.tolist() == [NULL, NULL, 4096, 0, NULL]
    assert rows.residual_bytes.tolist() == [NULL, NULL, 4096, 0, NULL]


def test_records_of_a_loop_are_told_by_their_times():
    records = [(30, 2, 2, 2, 0), (11, 1, 1, 1, 0), (50, 3, 3, 3, 0)]
    # The last one was too quick to be timed, and is rounded up.
    message = ran(node(1, "while/Add", "Add"), (10, 1), (20, 10), (50, 1), memory=records)
    assert read(profile(message)).executions.requested_bytes.tolist() == [1, 2, 3]


def test_nodes_have_their_device_and_the_innermost_line_of_the_program():
    trace = read(one_step())
    assert nodes(trace)["tower/MatMul"] == ("MatMul", None, "CPU:0")
    assert "never" not in nodes(trace)
    lines = {trace.string(int(s)) for s in trace.nodes.source}
    assert lines == {"", "lovelace/train.py(41): tower"}
    assert not any("ada" in text for text in trace.strings)


def test_early_releases_wrote_the_texts_of_a_line_in_place():
    message = ran(node(1, "x", "Const"), (0, 1))
    message.trace.traces.add(file=rb"C:\Users\ada\nets\train.py", lineno=7, function=b"main")
    trace = read(profile(message))
    assert trace.string(int(trace.nodes.source[0])) == "nets/train.py(7): main"


def test_the_four_views_are_fed():
    costs = op_costs(Facts(read(one_step())))
    assert [why_not(costs, kind) for kind in ("scope", "graph", "op", "code")] == [None] * 4

    def us(kind):
        rows = view(costs, kind, lambda sums: int(sums[2]))
        return {row.name: int(row.total[1] + row.total[2]) // 1000 for row in rows}

    assert us("scope") == {
        "tower": 61, "tower/MatMul": 40, "tower/Relu": 20, "tower/w": 1, "tower/w/read": 1,
        "x": 1, "step": 1,
    }  # fmt: skip
    assert us("op") == {"MatMul": 40, "Relu": 20, "Placeholder": 1, "Identity": 1, "NoOp": 1}
    assert us("code")["lovelace/train.py(41): tower"] == 40
    # What a NoOp names only has to come first.
    graph = {"tower/Relu": 62, "tower/MatMul": 42, "x": 1, "tower/w/read": 1, "step": 1}
    assert us("graph") == graph


def test_several_steps_are_marked_from_their_first_op_to_their_last():
    a = ran(ran(node(1, "a", "Relu"), (0, 10), step=100), (5000, 12), step=200)
    b = ran(ran(node(2, "b", "Relu"), (20, 10), step=100), (5020, 15), step=200)
    trace = read(profile(a, b))
    rows = trace.rows(Kind.STEP)
    names = [trace.string(int(n)) for n in trace.slices.name[rows]]
    assert names == ["step 100", "step 200"]
    assert trace.slices.dur_ns[rows].tolist() == [30_000, 35_000]
    assert (trace.health.events_read, trace.health.events_kept) == (4, 4)
    facts = Facts(trace)
    assert facts.steps.source == "marker"
    assert facts.steps.confidence == 0.8
    assert facts.steps.notes == (Cut.TRACED_RUNS,)
    assert facts.steps.durations_ns.tolist() == [30_000, 35_000]


def test_runs_that_share_the_number_of_a_step_are_told_apart():
    a = ran(node(1, "a", "Relu"), (0, 10), (100, 10))
    loop = ran(node(2, "while/Add", "Add"), (12, 3), (16, 3), (112, 3), (116, 4))
    end = ran(node(3, "end", "NoOp"), (20, 1), (121, 1))
    trace = read(profile(a, loop, end))
    rows = trace.rows(Kind.STEP)
    assert [trace.string(int(n)) for n in trace.slices.name[rows]] == [
        "step 0, run 1",
        "step 0, run 2",
    ]
    assert trace.slices.dur_ns[rows].tolist() == [21_000, 22_000]


def test_runs_at_the_same_time_are_one():
    trace = read(profile(ran(node(1, "a", "Relu"), (0, 10), (0, 10))))
    assert len(trace.rows(Kind.STEP)) == 0
    assert len(trace.slices) == 2


def test_a_loop_is_no_several_runs():
    a = ran(node(1, "a", "Relu"), (0, 10))
    loop = ran(node(2, "while/Add", "Add"), (12, 3), (16, 3), (20, 3))
    trace = read(profile(a, loop))
    assert len(trace.rows(Kind.STEP)) == 0
    assert "whole-step" in trace.meta.signals


def test_steps_that_overlap_are_not_told():
    a = ran(ran(node(1, "a", "Relu"), (0, 10), step=1), (5, 10), step=2)
    trace = read(profile(a))
    assert len(trace.rows(Kind.STEP)) == 0
    assert "whole-step" not in trace.meta.signals
    assert counters(trace) == {"steps-overlap": 1}


def test_kernels_of_a_gpu_and_what_scheduled_them():
    trace = read(on_gpu())
    assert slices(trace) == [
        ("GPU:0 scheduling 0", "OP", "Conv2D", "conv", "FORWARD", 0, 3),
        ("all streams", "KERNEL", "Conv2D", "conv", "FORWARD", 10, 50),
        ("all streams", "KERNEL", "Conv2D", "conv", "FORWARD", 60, 5),
    ]
    (cost,) = op_costs(Facts(trace)).ops
    count, host_ns, device_ns = cost.sums[:3].tolist()
    assert (count, host_ns, device_ns) == (1, 3000, 55_000)


def test_blocks_of_its_allocator_are_joined():
    trace = read(on_gpu())
    table = trace.allocations
    assert "memory" in trace.meta.signals
    assert table.change.tolist() == [64, 0, -64]
    assert table.total.tolist() == [NULL, 1 << 20, NULL]
    assert table.block[0] == table.block[2] != NULL
    assert {trace.string(int(p)) for p in table.pool} == {"GPU:0"}
    assert table.host.tolist() == [0, 0, 0]


def test_a_gpu_without_its_streams_is_guessed():
    trace = read(profile(ran(node(1, "conv", "Conv2D", device=GPU), (0, 3), on=GPU)))
    assert counters(trace) == {"guessed-device-time": 1}


def test_a_node_that_the_runtime_made_has_its_name_for_a_type():
    kernel = ran(node(1, "void gemm<float>(int)", "void gemm<float>(int)"), (0, 2), on=STREAMS)
    returned = ran(node(2, "_retval_loss_0_0", "_retval_loss_0_0"), (3, 1))
    trace = read(profile(kernel, returned))
    assert [s[2] for s in slices(trace)] == ["void gemm<float>(int)", "_Retval"]
    assert counters(trace) == {"op-type-unknown": 1}


def test_runs_without_a_usable_time_or_device_are_counted():
    message = ran(node(1, "a", "Relu"), (0, 10), (-2 * EPOCH_US, 1), (5, -1), (1 << 60, 1))
    message.execs[0].value.cpu_execs[0].value.times.add(int64_values=[7])
    message = ran(message, (20, 3), on="/host:whatever")
    trace = read(profile(message))
    assert counters(trace) == {"unusable-time": 4, "event-without-device": 1}
    assert (trace.health.events_read, trace.health.events_kept) == (6, 1)


def test_a_profile_of_a_graph_that_never_ran_is_refused():
    with pytest.raises(EmptyInputError, match="add_step"):
        read(profile(node(1, "x", "Const"), node(2, "y", "Relu", inputs=[1])))


def test_a_torn_file_gives_the_nodes_before_the_tear():
    data = one_step().SerializeToString()
    trace = importer.read(source_of(data[: data.index(b"tower/Relu")]))
    assert [s[3] for s in slices(trace)] == ["x", "tower/w/read", "tower/MatMul"]
    assert trace.health.has("protobuf-truncated")
    assert set(trace.nodes.source.tolist()) == {NULL}


def test_a_node_with_the_number_zero_is_one():
    # As C++ writes it: the key of an entry always, the number of a node only where it is not 0.
    value = ran(node(0, "x", "Const"), (0, 1)).SerializeToString()
    entry = b"\x08\x00\x12" + bytes([len(value)]) + value
    trace = importer.read(source_of(b"\x0a" + bytes([len(entry)]) + entry))
    assert len(trace.slices) == 1


OTHERS = [
    tf_samples.run_metadata([(tf_samples.CPU, [("a", "a = Relu(x)", 0, 1, None)])]),
    tf_samples.step_stats([(tf_samples.CPU, [("a", "a = Relu(x)", 0, 1, None)])]),
    tf_samples.graph(("x", "Relu", tf_samples.CPU, [], {})),
    message_class("XSpace")(planes=[message_class("XPlane")(name=b"/host:CPU")]),
    message_class("Event")(wall_time=5.0, file_version=b"brain.Event:2"),
]


@pytest.mark.parametrize(
    "data",
    [b"", b"\x0a" * 64, b"\n<html>", *(message.SerializeToString() for message in OTHERS)],
)
def test_other_messages_are_not_taken(data):
    assert not importer.recognise(source_of(data))
    assert importer.read(source_of(data)) is None


def test_nodes_under_other_numbers_are_none():
    message = one_step()
    for entry in message.nodes[:3]:
        entry.key += 17
    assert not importer.recognise(source_of(message.SerializeToString()))


def test_no_other_importer_takes_a_profile():
    source = source_of(one_step().SerializeToString())
    assert not any(m.recognise(source) for m in (xplane, run_metadata, tf_timeline, tensorboard))
    assert read_trace(source)[1] == "tfprof"


MUTABLE = one_step().SerializeToString()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTABLE) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(MUTABLE)),
)
def test_damage_is_counted_or_refused(changes, length):
    data = bytearray(MUTABLE)
    for position, byte in changes:
        data[position] = byte
    try:
        trace = importer.read(source_of(bytes(data[:length])))
    except StepwhyError:
        return
    if trace is not None:
        check(trace)


def test_a_damaged_node_is_left_out_and_counted():
    # The length of the name of a device on which the first node ran.
    data = one_step().SerializeToString().replace(b"\x0a\x2c/job", b"\x0a\x7f/job", 1)
    trace = importer.read(source_of(data))
    assert [s[3] for s in slices(trace)] == ["tower/w/read", "tower/MatMul", "tower/Relu", "step"]
    assert counters(trace) == {"node-damaged": 1}
    assert set(trace.nodes.source.tolist()) != {NULL}


def test_a_profile_of_damaged_nodes_alone_is_refused():
    message = profile(ran(node(1, "x", "Const"), (0, 1)))
    data = message.SerializeToString().replace(b"\x0a\x2c/job", b"\x0a\x7f/job", 1)
    with pytest.raises(CorruptInputError, match="damaged tfprof profile"):
        importer.read(source_of(data))


def test_a_node_that_fills_the_head_is_one():
    large = ran(node(1, "x" * 70_000, "Const"), (0, 1))
    source = source_of(profile(large, ran(node(2, "y", "Relu"), (2, 1))).SerializeToString())
    assert importer.recognise(source)


# --- TensorFlow's own ---

WRITE = """
import json
from tensorflow.compat import v1 as tf
tf.disable_v2_behavior()
x = tf.random.uniform([200, 300])
w = tf.get_variable("w", [300, 100])
with tf.name_scope("tower"):
    loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, w)))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
# As the program wrote it: a profile has no types of what an optimizer puts in.
rewrites = tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=-1))
rewrites.rewrite_options.disable_meta_optimizer = True
with tf.Session(config=tf.ConfigProto(graph_options=rewrites)) as session:
    session.run(tf.global_variables_initializer())
    session.run([train, loss])
    profiler = tf.profiler.Profiler(session.graph)
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    for step in (10, 20, 30):
        metadata = tf.RunMetadata()
        session.run([train, loss], options=full, run_metadata=metadata)
        profiler.add_step(step, metadata)
        open(f"run_metadata_{step}.pb", "wb").write(metadata.SerializeToString())
    open("profile", "wb").write(profiler.serialize_to_string())
    options = tf.profiler.ProfileOptionBuilder.time_and_memory(min_micros=0, min_bytes=0)
    options = tf.profiler.ProfileOptionBuilder(options).with_empty_output().build()
    found = {
        "op": profiler.profile_operations(options), "scope": profiler.profile_name_scope(options)
    }

def walk(node, of, costs):
    for child in node.children:
        fields = ("exec_micros", "requested_bytes", "residual_bytes", "output_bytes")
        costs[child.name] = [getattr(child, of + f) for f in fields]
        walk(child, of, costs)
    return costs

views = {view: walk(found[view], of, {}) for view, of in (("op", ""), ("scope", "total_"))}
json.dump(views, open("views.json", "w"))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory, forks):
    pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("tfprof")
    forks("tensorflow").check_output(WRITE, folder)
    return folder


def loaded(path):
    trace, name = read_trace(source_of(path.read_bytes()))
    check(trace)
    return trace, name


def ops_of(trace, within=None):
    """Durations of the op itself by node and op, us rounded down as TensorFlow does."""
    found = Counter()
    times = {}
    for row, op_ns in zip(trace.executions.slice, trace.executions.op_ns, strict=True):
        start = int(trace.slices.start_ns[row])
        key = (trace.string(trace.slices.scope[row]), trace.string(trace.slices.name[row]))
        if key[0] == "_SOURCE" or (within and not within[0] <= start < within[1]):
            continue
        found[key] += 1
        times[key] = int(op_ns) / 1000
    return found, times


@pytest.mark.framework
def test_a_profile_agrees_with_the_run_metadata_of_its_steps(written):
    ours, name = loaded(written / "profile")
    assert name == "tfprof"
    steps = ours.rows(Kind.STEP)
    assert [ours.string(int(n)) for n in ours.slices.name[steps]] == [
        "step 10", "step 20", "step 30",
    ]  # fmt: skip
    for step, row in zip((10, 20, 30), steps, strict=True):
        theirs, _ = loaded(written / f"run_metadata_{step}.pb")
        window = (int(ours.slices.start_ns[row]), int(ours.end_ns[row]))
        found, times = ops_of(ours, window)
        expected, exact = ops_of(theirs)
        assert found == expected
        assert sum(found.values()) > 10
        for key, us in times.items():
            # Begin and end are rounded down, each by itself; below one it is one.
            assert abs(us - exact[key]) <= 1, key


@pytest.mark.framework
def test_a_profile_names_the_lines_of_the_program(written):
    trace, _ = loaded(written / "profile")
    lines = {
        trace.string(int(n)): trace.string(int(s))
        for n, s in zip(trace.nodes.name, trace.nodes.source, strict=True)
    }
    source = WRITE.splitlines()
    for name, words in (("tower/MatMul", "tf.matmul"), ("w", "get_variable")):
        (line,) = (i for i, text in enumerate(source, 1) if words in text)
        assert lines[name].endswith(f"program.py({line}): <module>")


@pytest.mark.framework
@pytest.mark.parametrize("kind", ["op", "scope"])
def test_means_over_the_steps_agree_with_tensorflows(written, kind):
    theirs = json.loads((written / "views.json").read_bytes())[kind]
    trace, _ = loaded(written / "profile")
    facts = Facts(trace)
    # TensorFlow's means include a slow first step, too.
    facts.steps = replace(facts.recorded_steps, warm_up=0)
    rows = {row.name: row.total for row in view(op_costs(facts), kind, lambda s: int(s[2]))}
    compared = 0
    for name, (micros, requested, residual, output) in theirs.items():
        if not micros:
            assert name not in rows  # built, but never run
            continue
        if kind == "op" and name.startswith("_retval_"):
            assert "_Retval" in rows  # it has the name alone, where it has no type
            continue
        # It takes the mean of every node for itself, and cuts off what is less than a microsecond.
        count, _, device_ns, made, asked, _, left = (rows[name] / 3).tolist()
        assert 0 <= device_ns / 1000 - micros < max(count, 1), name
        for ours, total in ((made, output), (asked, requested), (left, residual)):
            assert max(ours, 0) == pytest.approx(total, abs=count), name
        compared += 1
    assert compared > 10


@pytest.mark.framework
@pytest.mark.parametrize("kind", ["scope", "graph", "op", "code"])
def test_all_four_views_are_there(written, kind):
    trace, _ = loaded(written / "profile")
    assert why_not(op_costs(Facts(trace)), kind) is None


@pytest.mark.traces
@pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces")
def test_a_stored_profile_agrees_with_the_run_metadata_beside_it():
    folder = Path(TRACES, "generated_cpu")
    trace, name = loaded(folder / "tfprof_profile_0")
    assert name == "tfprof"
    ran_once, _ = loaded(folder / "run_metadata_step0.pb")
    found, _ = ops_of(trace)
    expected, _ = ops_of(ran_once)
    assert sum(found.values()) == trace.health.events_read > 0
    assert set(found) & set(expected)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.sampled_from([one_step(), on_gpu()]), st.data())
def test_chunks_give_the_same_as_the_whole_message(message, draw):
    """Whatever is damaged in them."""
    data = bytearray(message.SerializeToString())
    for _ in range(draw.draw(st.integers(0, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    whole = outcome(bytes(data))
    with patch.object(profile_chunks, "_CHUNK", 16):
        assert outcome(bytes(data)) == whole


def outcome(data):
    """What reading a file gives: the slices and counters, or the error."""
    try:
        trace = importer.read(source_of(data))
    except StepwhyError as error:
        return type(error), str(error)
    return trace and (slices(trace), nodes(trace), counters(trace))
