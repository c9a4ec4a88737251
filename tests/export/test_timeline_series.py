"""Sampled values on the timeline: counters, levels of queues, and memory."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.analyse.timeline import Timeline
from tests.export.timelines import samples_of

from stepwhy.analyse.facts import Facts
from stepwhy.read.formats.run_directory import counter_log
from stepwhy.show.timeline import build, part_of, timeline_of
from stepwhy.show.timeline.samples import UNKNOWN, Sampled, thinned_samples, with_pauses
from stepwhy.show.timeline.series import _LEFT_OUT, _MEANINGS, MOST_SERIES
from stepwhy.trace import DeviceKind, Kind, Role

MS = 1_000_000


def a_line(length=100):
    """A trace of one kernel, `length` ms long."""
    line = Timeline(unit_ns=MS)
    track = line.builder.track(Role.STREAM, "stream 7")
    line.add(track, Kind.KERNEL, 0, length, name="mm")
    return line


def sample(line, name, values, every=10, *, device=-1, start=0):
    for i, value in enumerate(values):
        line.builder.add(
            "counters",
            time_ns=(start + i * every) * MS,
            name=line.builder.intern(name),
            value=value,
            device=device,
        )
    return line


def packed(*lines):
    parts = [("", part_of(Facts(line.trace()))) for line in lines]
    return timeline_of(parts)


def row_of(timeline, title):
    return next(row for row in timeline.rows if row.title == title)


def test_a_counter_of_a_program_holds_until_it_changes():
    found = packed(sample(a_line(), "live bytes", [3, 7, -2], every=40))
    assert samples_of(found) == {"/live bytes": [(0, 3), (40 * MS, 7), (80 * MS, -2)]}
    series = row_of(found, "live bytes").series
    assert (series.unit, series.samples, series.least, series.most) == ("bytes", 3, -2, 7)


def test_a_trace_without_samples_has_no_such_rows():
    assert not any(row.role == "series" for row in packed(a_line()).rows)


def test_a_counter_that_was_sampled_only_at_other_times_is_absent():
    late = sample(a_line(), "resident_bytes", [5, 6, 7], start=1000)
    early = sample(a_line(), "resident_bytes", [5, 6, 7], start=-1000)
    for line in (late, early):
        assert samples_of(packed(line)) == {}


def test_the_value_before_the_first_slice_holds_at_its_start():
    found = packed(sample(a_line(), "resident_bytes", [5, 6, 7, 8], start=-15))
    values = samples_of(found)["Machine/memory of the process"]
    assert values == [(0, 6), (5 * MS, 7), (15 * MS, 8), (25 * MS, None)]


def test_a_pause_of_the_sampler_is_unknown_not_zero():
    line = sample(a_line(1000), "gpu utilisation_percent", [90] * 5)
    sample(line, "gpu utilisation_percent", [80] * 5, start=500)
    values = samples_of(packed(line))["Machine/use"]
    assert values[4:7] == [(40 * MS, 90), (50 * MS, None), (500 * MS, 80)]
    assert values[-1] == (550 * MS, None)


def test_a_total_is_shown_as_its_growth():
    line = sample(a_line(), "cpu_ns", [0, 20 * MS, 25 * MS, 3 * MS, 8 * MS])
    found = packed(line)
    series = row_of(found, "CPU use of the process").series
    values = [v for _, v in samples_of(found)["Machine/CPU use of the process"]]
    # A total falls when a thread ends, and says nothing then.
    assert [v if v is None else v * series.scale for v in values[:4]] == [2.0, 0.5, None, 0.5]
    assert (series.unit, series.samples) == ("cores", 3)


def test_a_queue_has_its_capacity():
    line = a_line()
    for i, value in enumerate([0, 3, 8]):
        line.builder.add(
            "levels", time_ns=i * 10 * MS, queue=line.builder.intern("q"),
            kind=line.builder.intern("tf1-queue"), value=value, capacity=8, reserve=0,
        )  # fmt: skip
    found = packed(line)
    row = row_of(found, "q")
    assert (row.group, row.series.capacity, row.series.most) == ("Queue", 8, 8)
    assert found.rows.index(row) < found.rows.index(row_of(found, "stream 7"))


def allocate(line, changes, total=-1):
    for i, change in enumerate(changes):
        line.builder.add(
            "allocations", time_ns=i * 10 * MS, pool=line.builder.intern("GPU:0"), host=0,
            change=change, total=total if i == 1 else -1,
        )  # fmt: skip
    return line


def test_memory_is_the_sum_of_its_changes():
    found = packed(allocate(a_line(), [10, 20, -5], total=130))
    assert [v for _, v in samples_of(found)["Memory, GPU:0/allocated"]] == [110, 130, 125]


def test_memory_without_a_known_base_says_so():
    found = packed(allocate(a_line(), [10, 20, -5]))
    title = "Memory, GPU:0/allocated since the start of the trace"
    assert [v for _, v in samples_of(found)[title]] == [10, 30, 25]


def test_counters_of_devices_name_the_device():
    line = a_line()
    device = line.builder.device("nvml:1", DeviceKind.GPU)
    found = packed(sample(line, "gpu power_mw", [70_000, 71_500], device=device))
    row = row_of(found, "power")
    assert row.group == "GPU 1 (driver)"
    assert row.series.most * row.series.scale == pytest.approx(71.5)


def test_every_counter_of_a_run_directory_is_shown_or_left_out():
    gpu = {f"gpu {name}" for name in counter_log._GPU_COUNTERS}
    recorded = {*counter_log._COUNTERS, *gpu}
    assert recorded <= {*_MEANINGS, *_LEFT_OUT}
    assert not set(_MEANINGS) & _LEFT_OUT


def test_too_many_counters_are_counted():
    line = a_line()
    for number in range(MOST_SERIES + 5):
        sample(line, f"c{number}", [1])
    sample(line, "resident_bytes", [1, 2])
    found = packed(line)
    assert found.left_out == 6
    assert row_of(found, "memory of the process")


def test_a_sentinel_is_no_measurement():
    found = packed(sample(a_line(), "limit", [2**62, 5]))
    assert samples_of(found) == {"/limit": [(0, None), (10 * MS, 5)]}


def rows(values):
    values = np.array(values, dtype=np.int64)
    return Sampled("a", "", np.arange(len(values)) * 10, values)


def test_thinned_samples_keep_extremes_and_pauses():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 1000, 50_000)
    values[[777, 31_000]] = [5000, -3]
    values[20_000:20_010] = UNKNOWN
    thin = thinned_samples(rows(values), 2000)
    assert len(thin.values) <= 2100
    known = thin.values[thin.values != UNKNOWN]
    assert (known.min(), known.max()) == (-3, 5000)
    assert set(range(200_000, 200_100, 10)) <= set(thin.times_ns.tolist())
    kept = dict(zip(thin.times_ns.tolist(), thin.values.tolist(), strict=True))
    assert all(values[time // 10] == value for time, value in kept.items())


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 11])
def test_few_samples_are_thinned_without_an_error(count):
    thin = thinned_samples(rows(np.arange(count)), 1)
    assert set(thin.values.tolist()) <= set(range(count))
    assert bool(len(thin.values)) == bool(count)


def test_samples_without_pauses_only_end():
    times, values = with_pauses(np.arange(5) * 10, np.arange(5))
    assert times.tolist() == [0, 10, 20, 30, 40, 50]
    assert values.tolist() == [0, 1, 2, 3, 4, UNKNOWN]


def test_samples_count_towards_the_size_of_the_page(monkeypatch):
    rng = np.random.default_rng(5)
    monkeypatch.setattr(build, "MOST_BYTES", 20_000)
    part = part_of(Facts(sample(a_line(), "x", [1, 2]).trace()))
    many = replace(
        part.sampled[0],
        times_ns=np.sort(rng.integers(0, 100 * MS, 60_000)),
        values=rng.integers(0, 2**40, 60_000),
    )
    found = timeline_of([("", replace(part, sampled=(many,)))])
    assert found.size <= 20_000
    assert len(samples_of(found)["/x"]) > 100


def test_ranks_have_rows_of_their_own():
    parts = [
        (f"Rank {rank}", part_of(Facts(sample(a_line(), "x", [rank, 9]).trace())))
        for rank in (0, 1)
    ]
    found = samples_of(timeline_of(parts))
    assert {name: values[0][1] for name, values in found.items()} == {"Rank 0/x": 0, "Rank 1/x": 1}
