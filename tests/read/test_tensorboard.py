"""Event files, written here as TensorFlow writes them."""

from __future__ import annotations

import struct

import pytest

from stepwhy.base.errors import EmptyInputError
from stepwhy.read.formats.tensorboard import reader as tensorboard
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.trace.integrity import check

START_S = 1_500_000_000.25
# From `crc32c_test.cc` of TensorFlow's and LevelDB's own tests: 32 zero bytes.
ZEROS_CRC = 0x8A9136AA


def record(data, *, framed=None):
    header = struct.pack("<Q", len(data) if framed is None else framed)
    return header + struct.pack("<I", tensorboard._masked_crc(header)) + data + b"\0\0\0\0"


def event(after_s=0.0, *, version=b"", **scalars):
    message = message_class("Event")(wall_time=START_S + after_s, file_version=version)
    for tag, value in scalars.items():
        message.summary.value.add(tag=tag.encode(), simple_value=value)
    return message.SerializeToString()


def file(*events, tail=b""):
    return b"".join(map(record, [event(version=b"brain.Event:2"), *events])) + tail


def source(*events, tail=b""):
    return Source(file(*events, tail=tail), "events.out.tfevents.1")


def scalars(pairs, after_s=0.0):
    return event(after_s, **dict(pairs))


def levels(trace):
    table = trace.levels
    columns = (table.queue, table.value, table.capacity, table.reserve)
    return [
        (trace.string(q), v, c, r)
        for q, v, c, r in zip(*(column.tolist() for column in columns), strict=True)
    ]


def test_the_checksum_is_castagnolis():
    unmasked = (tensorboard._masked_crc(bytes(32)) - 0xA282EAD8) & 0xFFFFFFFF
    assert (unmasked >> 17 | unmasked << 15) & 0xFFFFFFFF == ZEROS_CRC


def test_fill_levels_of_all_kinds_of_queues():
    trace = tensorboard.read(
        source(
            scalars(
                [
                    ("batch/fraction_of_32_full", 0.25),
                    ("queue/input_producer/fraction_of_32_full", 1.0),
                    ("shuffle_batch/fraction_over_200_of_192_full", 0.5),
                    ("loss", 3.0),
                ]
            ),
            scalars([("batch/fraction_of_32_full", 0.0)], after_s=2.5),
        )
    )
    check(trace)
    assert levels(trace) == [
        ("batch", 8, 32, 0),
        ("input_producer", 32, 32, 0),
        ("shuffle_batch", 296, 392, 200),
        ("batch", 0, 32, 0),
    ]
    assert trace.levels.time_ns[-1] - trace.levels.time_ns[0] == 2_500_000_000
    assert {trace.string(int(k)) for k in trace.levels.kind} == {"tf1-queue"}
    assert (trace.health.events_read, trace.health.events_kept) == (4, 4)
    assert (trace.meta.format, trace.meta.framework) == ("tensorboard", "tensorflow")


def test_queues_beyond_the_most_are_counted_and_left_out(monkeypatch):
    monkeypatch.setattr(tensorboard, "_MOST_QUEUES", 3, raising=False)
    events = [event(n, **{f"q{n % 5}/fraction_of_32_full": 0.5}) for n in range(10)]
    trace = tensorboard.read(source(*events))
    assert [trace.string(q) for q in trace.levels.queue.tolist()] == ["q0", "q1", "q2"] * 2
    (counted,) = trace.health.counters
    assert (counted.counter, counted.count, counted.dropped) == ("queue-left-out", 4, True)


def test_steps_by_their_rate():
    trace = tensorboard.read(
        source(scalars([("global_step/sec", 20.0)], 5.0), scalars([("global_step/sec", 10.0)], 10))
    )
    assert trace.marks.dur_ns.tolist() == [50_000_000, 100_000_000]
    assert trace.marks.start_ns.tolist() == [
        round(START_S * 1e6) * 1000 + 4_950_000_000,
        round(START_S * 1e6) * 1000 + 9_900_000_000,
    ]
    assert "means between two summaries" in trace.meta.notes[0]


def test_scalars_that_are_tensors():
    message = message_class("Event")(wall_time=START_S)
    value = message.summary.value.add(tag=b"a/fraction_of_8_full")
    value.tensor.tensor_content = struct.pack("<f", 0.5)
    value = message.summary.value.add(tag=b"b/fraction_of_8_full")
    value.tensor.float_val.append(0.25)
    value = message.summary.value.add(tag=b"c/fraction_of_8_full")
    value.tensor.tensor_content = b"half"[:3]
    trace = tensorboard.read(source(message.SerializeToString()))
    assert levels(trace) == [("a", 4, 8, 0), ("b", 2, 8, 0)]
    assert [(c.counter, c.count) for c in trace.health.counters] == [("value-out-of-range", 1)]


LEVEL = scalars([("batch/fraction_of_32_full", 0.25)])


@pytest.mark.parametrize("cut", range(1, len(record(LEVEL))))
def test_a_file_that_ends_anywhere_is_read_up_to_there(cut):
    trace = tensorboard.read(source(LEVEL, tail=record(LEVEL)[:cut]))
    assert levels(trace) == [("batch", 8, 32, 0)]
    assert trace.health.has("record-torn")


def test_damage_ends_the_file_and_a_record_that_is_no_event_does_not():
    damaged = bytearray(record(LEVEL))
    damaged[9] ^= 1
    trace = tensorboard.read(source(LEVEL, tail=bytes(damaged) + record(LEVEL)))
    assert len(trace.levels) == 1
    assert trace.health.has("framing-damaged")
    trace = tensorboard.read(source(b"\xff\xff\xff", LEVEL))
    assert len(trace.levels) == 1
    assert trace.health.has("record-damaged")


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("batch/fraction_of_32_full", float("nan")),
        ("batch/fraction_of_32_full", 1.5),
        ("global_step/sec", float("inf")),
        ("global_step/sec", 0.0),
        ("global_step/sec", -1.0),
    ],
)
def test_values_that_cannot_be_are_counted(tag, value):
    trace = tensorboard.read(source(LEVEL, scalars([(tag, value)])))
    assert (len(trace.levels), len(trace.marks)) == (1, 0)
    assert (trace.health.events_read, trace.health.events_kept) == (2, 1)
    assert trace.health.has("value-out-of-range")


@pytest.mark.parametrize(
    "tag", ["batch/fraction_of_0_full", "x/fraction_over_5_of_0_full", "fraction_full", "queue"]
)
def test_tags_that_are_of_no_queue(tag):
    with pytest.raises(EmptyInputError, match="without fill levels"):
        tensorboard.read(source(scalars([(tag, 0.5)])))


def test_times_that_are_none_are_left_alone():
    message = message_class("Event")(wall_time=float("inf"))
    message.summary.value.add(tag=b"batch/fraction_of_32_full", simple_value=0.5)
    trace = tensorboard.read(source(LEVEL, message.SerializeToString()))
    assert len(trace.levels) == 1


def test_recognised_by_content():
    assert tensorboard.recognise(source())
    assert not tensorboard.recognise(Source(b"", "x"))
    assert not tensorboard.recognise(Source(b"\x18" + bytes(40), "x"))
    assert not tensorboard.recognise(Source(file()[:8] + b"xxxx" + file()[12:], "x"))


@pytest.mark.framework
def test_what_tensorflow_writes(tmp_path):
    tf = pytest.importorskip("tensorflow.compat.v1")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.shuffle_batch([tf.constant(1)], 2, capacity=10, min_after_dequeue=4)
        tf.train.batch([tf.constant(1)], 2, capacity=8)
        writer = tf.summary.FileWriter(str(tmp_path))
        writer.add_summary(session.run(tf.summary.merge_all()), 1)
        writer.close()
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    assert tensorboard.recognise(Source(data, path.name))
    found = {(name, capacity, reserve) for name, _, capacity, reserve in levels(
        tensorboard.read(Source(data, path.name))
    )}  # fmt: skip
    assert found == {("shuffle_batch", 10, 4), ("batch", 8, 0)}


def test_what_is_said_of_such_a_file(tmp_path):
    from stepwhy.engine import explain
    from stepwhy.result.reasons import Gap, Lack
    from stepwhy.result.wording.verdict import verdict_sentence
    from stepwhy.show.advice import next_steps

    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(file(*[scalars([("batch/fraction_of_32_full", 0.0)], n) for n in range(12)]))
    result = explain([str(path)])
    assert result.verdict.sentence == (
        "The steps probably wait for input: queue 'batch' was empty in 100 % of the time. How long "
        "they wait was not recorded."
    )
    assert [(p.name, p.empty_share) for p in result.pipelines] == [("batch", 1.0)]
    assert "error" not in {f.verdict for f in result.findings}
    path.write_bytes(file(*[scalars([("global_step/sec", 10.0)], n) for n in range(12)]))
    result = explain([str(path)])
    assert result.verdict.sentence == verdict_sentence(Gap(Lack.STEP_CONTENT))
    assert result.steps.median_ns == 100_000_000
    assert [line[:25] for line in next_steps(result)] == ["Watch the run with 'stepw"]
