"""XPlane profiles that real profilers wrote, against independent readings of the same files."""

import json
import os
from pathlib import Path

import pytest
from tests import recorded
from tests.read.xplane_samples import counters, rows

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind, Role
from stepwhy.trace.integrity import check

TRACES = os.environ.get("STEPWHY_TRACES")
in_folder = [
    recorded.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]


def measured():
    if not TRACES:
        return {}
    facts = json.loads(Path(TRACES, "FACTS.json").read_text())
    return {n: f for n, f in facts.items() if n.startswith("xplane/")}


def facts_of(path):
    facts = recorded.facts_of(path)
    assert facts.trace.meta.format == "xplane"
    check(facts.trace)
    return facts


def assert_closed(facts):
    health = facts.trace.health
    assert health.events_read == health.events_kept + health.dropped
    assert (facts.per_step.sum(axis=1) == facts.steps.durations_ns).all()
    assert sum(facts.breakdown.values()) == facts.wall_ns


@pytest.mark.parametrize("name", [pytest.param(n, marks=in_folder) for n in sorted(measured())])
def test_devices_agree_with_an_independent_program(name):
    expected = measured()[name]
    facts = facts_of(Path(TRACES, name))
    assert_closed(facts)
    assert facts.trace.health.events_read == expected["n_events"]
    totals = {f"/device:{t.name}": t for t in facts.totals}
    assert sorted(totals) == sorted(expected["device"])
    for device, theirs in expected["device"].items():
        ours = totals[device]
        assert ours.kernels == theirs["kernels"]
        assert ours.busy_ns / 1e6 == pytest.approx(theirs["busy_ms"], abs=0.001)
        assert ours.kernel_ns / 1e6 == pytest.approx(theirs["kernel_sum_ms"], abs=0.001)


@pytest.mark.parametrize("name", [pytest.param(n, marks=in_folder) for n in sorted(measured())])
def test_no_host_name_shows(name):
    trace = facts_of(Path(TRACES, name)).trace
    shown = "\n".join([*trace.strings, repr(trace.meta)])
    assert [h for h in measured()[name]["hostnames"] if h in shown] == []


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        pytest.param("jax_mi300_gemm", 0, marks=in_folder),
        pytest.param("jax_mi300_conv_8gpu", 0, marks=in_folder),
        pytest.param("jax_mi300x_conv_legacy", 7, marks=in_folder),
        pytest.param("tf2_bert_8xV100_worker", 1, marks=in_folder),
    ],
)
def test_partial_captures_are_noticed(name, missing):
    trace = facts_of(Path(TRACES, "xplane", f"{name}.xplane.pb")).trace
    assert counters(trace).get("device-without-kernels", 0) == missing


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=in_folder) for n in ("jax_mi300_gemm", "jax_mi300_conv_8gpu")]
)
def test_the_host_is_named_where_the_expert_names_it(name):
    facts = facts_of(Path(TRACES, "xplane", f"{name}.xplane.pb"))
    assert decide(facts).bound_by == "host"


@pytest.mark.traces
@pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces")
def test_a_profile_saved_as_text_is_refused():
    path = Path(TRACES, "malformed", "xplane_utf8_mangled_tpu.xplane.pb")
    with pytest.raises(CorruptInputError, match="saved as text"):
        read_trace(read_source(path))


# Writes a profile, then what TensorFlow's own messages say is in it: name, start and end of every
# event per line, picoseconds.
SCRIPT = """
import glob, json, sys
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2
LOOP
(path,) = glob.glob(sys.argv[1] + "/**/*.xplane.pb", recursive=True)
space = xplane_pb2.XSpace.FromString(open(path, "rb").read())
events = [
    [p.event_metadata[e.metadata_id].name, e.duration_ps]
    for p in space.planes for l in p.lines for e in l.events
]
print(json.dumps([path, events]))
"""
CUSTOM_LOOP = """
w = tf.Variable(tf.random.normal([128, 128]))
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.relu(x @ w) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss
data = tf.data.Dataset.range(100).map(lambda i: tf.random.normal([128, 128])).prefetch(2)
batches = iter(data)
step(next(batches))
tf.profiler.experimental.start(sys.argv[1])
for i in range(6):
    with tf.profiler.experimental.Trace("train", step_num=i, _r=1):
        step(next(batches))
tf.profiler.experimental.stop()
"""
KERAS_FIT = """
import keras, numpy
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(8)])
model.compile("sgd", "mse")
x, y = numpy.zeros((256, 16), "f4"), numpy.zeros((256, 8), "f4")
board = keras.callbacks.TensorBoard(sys.argv[1], profile_batch=(4, 9))
model.fit(x, y, batch_size=16, verbose=0, callbacks=[board])
"""


@pytest.fixture(scope="module", params=[CUSTOM_LOOP, KERAS_FIT], ids=["custom-loop", "fit"])
def profile(request, tmp_path_factory, forks):
    pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("profile")
    script = SCRIPT.replace("LOOP", request.param)
    printed = forks("keras").check_output(script, folder, str(folder))
    path, events = json.loads(printed.splitlines()[-1])
    return facts_of(Path(path)).trace, events


@pytest.mark.framework
def test_a_capture_has_its_steps_and_a_closed_breakdown(profile):
    facts = Facts(profile[0])
    assert (facts.steps.source, len(facts.steps.starts)) == ("marker", 6)
    assert_closed(facts)
    assert facts.trace.meta.framework == "tensorflow"
    assert facts.breakdown["compute"] > 0
    assert facts.breakdown["input_wait"] > 0


@pytest.mark.framework
def test_a_capture_holds_every_event_with_its_duration(profile):
    trace, events = profile
    assert trace.health.events_read == len(events)
    kept = [(n, d) for n, d in events if not n.startswith(("Threadpool", "Memory"))]
    ours = sorted(trace.slices.dur_ns.tolist())
    theirs = sorted(duration / 1000 for _, duration in kept)
    assert len(ours) == len(theirs)
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1


@pytest.mark.framework
def test_a_capture_computes_on_the_executor_of_the_cpu(profile):
    found = rows(profile[0])
    assert {r[2] for r in found if r[1] is Kind.KERNEL} == {Role.EXECUTOR}
    assert {r[2] for r in found if r[1] is Kind.STEP} == {Role.HOST_THREAD}
    assert any("MatMul" in r[0] for r in found if r[1] is Kind.KERNEL)
