"""Fill levels of queues and buffers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.input.pipelines import find_pipelines

FEW = settings(max_examples=80, deadline=None, derandomize=True)


def levels(values, *, name="q", kind="tf1-queue", capacity=10, reserve=0, every=1, line=None):
    line = line or Timeline()
    for i, value in enumerate(values):
        line.builder.add(
            "levels",
            time_ns=round(i * every * MS),
            queue=line.builder.intern(name),
            kind=line.builder.intern(kind),
            value=value,
            capacity=-1 if capacity is None else capacity,
            reserve=reserve,
        )
    return line


def only(line, steady_ns=None):
    (pipeline,) = find_pipelines(line.trace(), steady_ns)
    return pipeline


def test_a_run_without_samples_has_no_pipelines():
    assert find_pipelines(Timeline().trace(), None) == ()


def test_a_starved_queue_is_empty():
    queue = only(levels([0, 0, 0, 5]))
    assert (queue.name, queue.kind, queue.capacity, queue.samples) == ("q", "tf1-queue", 10, 4)
    assert (queue.empty_share, queue.full_share, queue.mean_fill) == (0.75, 0.0, 0.125)


def test_a_queue_that_keeps_up_is_full():
    queue = only(levels([10, 10, 10, 9]))
    assert (queue.empty_share, queue.full_share, queue.mean_fill) == (0.0, 0.75, 0.975)


def test_what_cannot_be_taken_out_does_not_count():
    queue = only(levels([8, 6, 2, 10], reserve=6))
    assert (queue.empty_share, queue.full_share, queue.mean_fill) == (0.5, 0.25, 0.375)


def test_without_a_bound_there_is_no_fill():
    queue = only(levels([0, 3], capacity=None))
    assert (queue.capacity, queue.mean_fill, queue.full_share) == (None, None, None)
    assert queue.empty_share == 0.5


def test_a_sample_stands_for_the_time_until_the_next():
    line = levels([0, 10], every=9)
    levels([10, 10], every=10, line=line)  # at 0 and 10: the first is replaced at once
    queue = only(line)
    assert queue.empty_share == pytest.approx(0.0, abs=0.01)
    assert queue.full_share == pytest.approx(1.0, abs=0.01)


def test_only_steady_steps_count_where_they_were_sampled():
    line = levels([0] * 5 + [10] * 5)
    assert only(line, (5 * MS, 20 * MS)).full_share == 1.0
    assert only(line, (50 * MS, 60 * MS)).full_share == 0.5
    assert only(line).full_share == 0.5


def test_the_series_starts_at_the_first_step():
    line = levels([1, 2, 3])
    line.mark(1, 3)
    assert only(line).series == ((-MS, 1.0), (0, 2.0), (MS, 3.0))


def test_queues_are_told_apart_and_come_as_they_appeared():
    line = levels([1], name="first")
    levels([2], name="second", line=line)
    levels([3, 4], name="first", kind="dataloader", line=line)
    found = find_pipelines(line.trace(), None)
    assert [(p.name, p.kind, p.samples) for p in found] == [
        ("first", "tf1-queue", 1), ("second", "tf1-queue", 1), ("first", "dataloader", 2),
    ]  # fmt: skip


@FEW
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=700),
    st.integers(1, 12) | st.none(),
    st.integers(0, 4),
)
def test_shares_are_shares_and_the_series_is_short(values, capacity, reserve):
    queue = only(levels(values, capacity=capacity, reserve=reserve))
    assert 1 <= len(queue.series) <= 200
    assert [t for t, _ in queue.series] == sorted({t for t, _ in queue.series})
    assert min(values) <= min(v for _, v in queue.series)
    assert max(v for _, v in queue.series) <= max(values)
    assert 0 <= queue.empty_share <= 1
    if capacity is not None:
        assert 0 <= queue.mean_fill <= 1
        assert queue.empty_share + queue.full_share <= 1.0001


def stage(line, name, consumer="", *, buffered=0, kind="tf.data", **values):
    intern = line.builder.intern
    line.builder.add(
        "stages", name=intern(name), kind=intern(kind), buffered=buffered,
        consumer=intern(consumer) if consumer else -1, **values,
    )  # fmt: skip


def test_a_buffer_has_the_stages_that_fill_it_up_to_the_next_buffer():
    line = levels([1], name="Prefetch[5]", kind="tf.data")
    levels([1], name="ParallelMap[3]", kind="tf.data", line=line)
    stage(line, "Prefetch[5]", buffered=1, buffer_size=2, elements=90)
    stage(line, "Batch[4]", "Prefetch[5]", processing_ns=7)
    stage(line, "ParallelMap[3]", "Batch[4]", buffered=1, parallelism=8)
    stage(line, "Zip[2]", "ParallelMap[3]")
    stage(line, "Range[1]", "Zip[2]")
    stage(line, "Range[0]", "Zip[2]")
    first, second = find_pipelines(line.trace(), None)
    assert [s.name for s in first.stages] == ["Prefetch[5]", "Batch[4]"]
    assert [s.name for s in second.stages] == ["ParallelMap[3]", "Zip[2]", "Range[1]", "Range[0]"]
    prefetch, batch = first.stages
    assert (prefetch.buffer_size, prefetch.elements, prefetch.processing_ns) == (2, 90, None)
    assert (batch.processing_ns, batch.parallelism) == (7, None)


def test_stages_that_no_buffer_parts_from_the_training_stand_alone():
    line = levels([1], name="Prefetch[1]", kind="tf.data")
    stage(line, "Map[3]")
    stage(line, "Batch[2]", "Map[3]")
    stage(line, "Prefetch[1]", "Batch[2]", buffered=1)
    sampled, alone = find_pipelines(line.trace(), None)
    assert (sampled.name, [s.name for s in sampled.stages]) == ("Prefetch[1]", ["Prefetch[1]"])
    assert (alone.name, alone.samples, alone.empty_share) == ("Map[3]", 0, None)
    assert [s.name for s in alone.stages] == ["Map[3]", "Batch[2]"]


@FEW
@given(st.lists(st.tuples(st.integers(-1, 9), st.booleans()), max_size=10))
def test_every_stage_stands_in_one_place(tree):
    line = Timeline()
    for place, (taker, buffered) in enumerate(tree):
        above = min(taker, place - 1)
        stage(line, f"s{place}", f"s{above}" if above >= 0 else "", buffered=int(buffered))
    names = [s.name for p in find_pipelines(line.trace(), None) for s in p.stages]
    assert sorted(names) == sorted(f"s{place}" for place in range(len(tree)))
