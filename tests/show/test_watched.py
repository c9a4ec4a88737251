"""Descriptions and charts of queues, events and observer cost of a watched run."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.show.conftest import MS, SAMPLES, levels, some_steps
from tests.show.test_html import Page
from tests.show.test_terminal import printed, unwrapped

from stepwhy.result import EventGroup, PipelineStage, Stretch, Traced
from stepwhy.show import html, watched
from stepwhy.show.html import chart
from stepwhy.show.html.levels import HEIGHT, WIDTH, level_charts
from stepwhy.show.terminal.watched import level_line

FEW = settings(max_examples=80, deadline=None, derandomize=True)
US = 1_000


def watching(**cost):
    return watched.watching_sentence(
        some_steps(10, **{f"observer_cost_{name}": value for name, value in cost.items()})
    )


def test_cost_of_watching_is_one_sentence():
    assert watching() == ""
    sentence = watching(ns=3_420, interval_ns=(-2_010, 9_130))
    assert sentence == "Watching added 3.4 µs per observed step (95 %: -2.0 to 9.1 µs)"
    sentence = watching(ns=-700, interval_ns=(-5_000, 12_000))
    assert sentence == "Watching added nothing measurable per observed step (95 %: -5 to 12 µs)"
    assert watching(missing_steps=128) == ("Cost of watching unknown: about 130 more steps needed")
    assert watching(interval_ns=(-80_000, 120_000), missing_steps=3_104) == (
        "Cost of watching unknown: steps vary too much (95 %: -80 to 120 µs); about 3,100 "
        "more steps needed"
    )
    assert watching(interval_ns=(-80_000, 120_000), missing_steps=95_000) == (
        "Cost of watching unknown: steps vary too much (95 %: -80 to 120 µs)"
    )


def test_the_cost_of_watching_includes_traced_steps_and_sampling():
    steps = some_steps(
        10,
        observer_cost_ns=14_000,
        observer_cost_interval_ns=(12_000, 16_000),
        observer_share=0.0123,
        sampling_cores=0.0061,
    )
    assert watched.watching_sentence(steps) == (
        "Watching added 1.2 % to the time of all steps: 14 µs per observed step (95 %: 12 to 16 "
        "µs), and traced ones. Sampling beside it took 0.6 % of a core. Not included: start-up, "
        "and 2 to 5 µs per step to time it"
    )


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 0, "0 to 0 ns"),
        (-400, 900, "-400 to 900 ns"),
        (-40, 1_500, "0.0 to 1.5 µs"),
        (-2 * MS, 9 * MS, "-2.0 to 9.0 ms"),
        (-20 * MS, 9 * MS, "-20 to 9 ms"),
    ],
)
def test_an_interval_has_one_unit(low, high, text):
    assert watched.format_range(low, high) == text


@pytest.mark.parametrize(
    ("shares", "state"),
    [
        ((0.004, 0.92, 0.0), "empty 92 % of the time (starved: the consumer waits)"),
        (
            (0.97, 0.0, 0.9),
            "full 90 % of the time (the input keeps up: the consumer is the bottleneck)",
        ),
        ((0.4, 0.2, 0.1), "40 % full on average; empty 20 %, full 10 % of the time"),
        ((None, 0.25, None), "empty 25 % of the time"),
        ((None, 0.75, None), "empty 75 % of the time (starved: the consumer waits)"),
    ],
)
def test_state_of_a_queue(shares, state):
    names = ("mean_fill", "empty_share", "full_share")
    queue = levels("tf1-queue", "q", 10, [1] * 10, **dict(zip(names, shares, strict=True)))
    assert watched.pipeline_state(queue) == state


def test_rarely_sampled_queue_has_no_verdict():
    queue = levels("tf1-queue", "q", 10, [10] * 9, mean_fill=1.0, empty_share=0.0, full_share=1.0)
    assert watched.pipeline_state(queue) == (
        "100 % full, but sampled only 9 times, too rarely for a verdict"
    )
    unbounded = levels("tf1-queue", "q", None, [10], empty_share=0.0)
    assert watched.pipeline_state(unbounded) == "sampled only once, too rarely for a verdict"


@pytest.mark.parametrize(
    ("stages", "state"),
    [
        ((), "no buffer: this runs inside the step"),
        ((PipelineStage("Images", 0, 0),), "no buffer: this runs inside the step"),
        ((PipelineStage("Images", 4, 8),), "fill level unknown"),
        ((PipelineStage("M"), PipelineStage("R", None, 8)), "no buffer: this runs inside the step"),
    ],
)  # fmt: skip
def test_queue_without_samples(stages, state):
    assert watched.pipeline_state(levels("dataloader", "q", None, [], stages=stages)) == state


@pytest.mark.parametrize(
    ("kind", "samples", "name"),
    [
        ("tf1-queue", [1], "queue q"),
        ("tf.data", [1], "buffer q of tf.data"),
        ("tf.data", [], "stage q of tf.data"),
        ("dataloader", [1], "queue of the DataLoader of q"),
        ("ring", [1], "ring q"),
    ],
)
def test_a_queue_has_a_name(kind, samples, name):
    assert watched.pipeline_name(levels(kind, "q", None, samples)) == name


def test_events_of_the_warm_up_are_only_in_all(sample):
    result = sample("watched")
    assert [e.name for e in watched.later_events(result)] == ["train_step", "graph"]
    assert [e.name for e in watched.listed_events(result)] == ["cluster_0", "train_step", "graph"]
    quiet = structs.replace(result, events=result.events[:1])
    assert "traced while training" not in printed(quiet)
    assert "compiled cluster_0" in printed(quiet, show_all=True)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (EventGroup("trace", "f", "", 2, 1, 2, "", 0, 3, 9), ("traced f", "3 to 9", "")),
        (EventGroup("graph", "graph", "", 2, 0, 2, "", 0, 3, 3, 1200),
         ("graph grown by 1,200 operations", "3", "")),
        (EventGroup("workers", "loader", "", 1, 1, 0, "epoch", 2, 0, 4),
         ("started workers of loader", "before 1 to 4", "epoch (and 1 other reason)")),
        (EventGroup("autotune", "mm", "", 1, 1, 0), ("autotune mm", "", "")),
        (EventGroup("compile", "g", "", 1, 1, 0, "why", 3),
         ("compiled g", "", "why (and 2 others)")),
    ],
)  # fmt: skip
def test_an_event_in_words(event, words):
    found = (watched.event_name(event), watched.event_steps(event), watched.event_reason(event))
    assert found == words


def test_heading_names_only_the_kinds_present():
    events = [EventGroup(kind, "x", "", 1, 1, 1) for kind in ("trace", "epoch")]
    saved = EventGroup("save", "torch.save", "", 1, 1, 1)
    assert watched.events_title([*events, saved]) == (
        "Compiled, traced, restarted or saved during training"
    )
    assert watched.events_title([saved]) == "Saved during training"
    evaluated = structs.replace(saved, kind="evaluation", name="predict")
    assert watched.events_title([evaluated]) == "Evaluated during training"
    assert watched.event_name(evaluated) == "called predict"
    assert watched.events_title(events[:1]) == "Compiled or traced during training"
    assert watched.events_title(events) == "Compiled, traced or restarted during training"
    assert watched.events_title(events[1:]) == "Restarted during training"


@pytest.mark.parametrize("width", [60, 100])
def test_the_terminal_shows_queues_events_and_cost(sample, width):
    text = printed(sample("watched"), width)
    flat = unwrapped(text)
    for part in (
        "Queues and buffers",
        "queue batch/fifo_queue: empty 92 % of the time (starved: the consumer waits)",
        "queue of the DataLoader of Images: full 75 % of the time",
        "Compiled or traced during training",
        "traced train_step",
        "graph grown by 400 operations",
        "Watching added 3.4 µs per observed step",
    ):
        assert part in flat
    assert re.search(r"^ +12 +1\.24 s +1 to 190 +traced train_step$", text, re.MULTILINE)


def test_a_level_line_goes_from_empty_to_full():
    queue = levels("tf1-queue", "q", 7, range(8))
    assert level_line(queue, 8) == "▁▂▃▄▅▆▇█"
    assert level_line(queue, 16) == "▁▁▂▂▃▃▄▄▄▅▅▆▆▇▇█"
    assert level_line(levels("tf1-queue", "q", None, [5]), 4) == "████"


def test_reserve_does_not_fill_a_queue():
    starved = levels("tf1-queue", "q", 392, [392, 296, 200, 200, 150], reserve=200)
    assert level_line(starved, 5) == "█▅▁▁▁"
    result = structs.replace(SAMPLES["healthy"](), pipelines=(starved,))
    (drawn,) = level_charts(result)
    ys = [float(y) for y in re.findall(r"V([\d.]+)", drawn.area)]
    assert ys[-4:] == [drawn.reserve_y] * 4  # three levels and the closing edge


def test_large_reserve_is_not_drawn_in_full():
    queue = levels("tf1-queue", "q", 30_192, [0, 30_000, 30_192], reserve=30_000)
    result = structs.replace(SAMPLES["healthy"](), pipelines=(queue,))
    (drawn,) = level_charts(result)
    assert drawn.reserve_y - drawn.capacity_y > HEIGHT / 2
    assert "The chart starts at 29,904." in drawn.key


@FEW
@given(st.lists(st.integers(0, 50), min_size=1, max_size=200), st.integers(1, 80))
def test_a_level_line_has_its_width(values, cells):
    line = level_line(levels("tf.data", "q", None, values), cells)
    assert len(line) == cells
    assert set(line) <= set("▁▂▃▄▅▆▇█")


def test_ascii_replaces_blocks(sample):
    text = printed(sample("watched"), encoding="ascii")
    assert "?????" not in text
    assert re.search(r"_{5,}", text)


def test_the_page_shows_levels_with_capacity_and_reserve(sample):
    result = sample("watched")
    text = html.render(result).replace("\N{NO-BREAK SPACE}", " ")
    assert text.count('<svg class="levels"') == 4
    assert text.count('class="reserve"') == 1
    assert "Dashed: the capacity, 1,000. Dotted: the reserve for shuffling, 200." in text
    assert "input 0 has shape (31, 224), before (32, 224) (and 2 others)" in text
    assert "Watching added 3.4 µs per observed step (95 %: -2.0 to 9.1 µs)" in text


@FEW
@given(
    st.lists(st.integers(0, 50), max_size=200), st.none() | st.integers(1, 50), st.integers(0, 9)
)
def test_level_stays_in_its_chart(values, capacity, reserve):
    queue = levels("tf1-queue", "q", capacity, values, reserve)
    result = structs.replace(SAMPLES["healthy"](), pipelines=(queue,))
    (drawn,) = level_charts(result)
    assert bool(drawn.path) == bool(values)
    assert all(0 <= float(y) <= HEIGHT for y in re.findall(r"V([\d.]+)", drawn.path))
    assert all(0 <= float(x) <= WIDTH for x in re.findall(r"H([\d.]+)", drawn.path))
    for y in (drawn.capacity_y, drawn.reserve_y):
        assert y is None or 0 <= y <= HEIGHT


def test_bars_have_stretch_and_number(sample):
    steps = sample("watched").steps
    drawn = chart.step_chart(steps)
    assert len(drawn.bars) == 240
    assert [bar.other for bar in drawn.bars] == [False] * 160 + [True] * 80
    assert sum(bar.warm_up for bar in drawn.bars) == 3
    assert drawn.changes == (480.0,)
    assert (drawn.median_from, drawn.median_to) == (0.0, 480.0)
    # Steps 21 to 23 were traced: they have a mark, but no bar.
    assert [b.text.split(":")[0] for b in drawn.bars[19:21]] == ["Step 20", "Step 24"]
    assert [m.text for m in drawn.traced] == ["Steps 21 to 23: traced", "Steps 204 to 206: traced"]
    assert not any(bar.is_cut for bar in drawn.bars[160:])


def test_the_page_lists_the_stages_that_fill_a_buffer(sample):
    result = sample("watched")
    text = " ".join(Page(html.render(result)).text.split())
    assert "Prefetch[5] – – 2 90" in text  # noqa: RUF001 - en dash intended
    assert "ParallelMapV2[4] 1.20 ms 8 – 90" in text  # noqa: RUF001
    alone = structs.replace(result, pipelines=result.pipelines[-1:])
    assert "No buffer: this runs inside the step." in html.render(alone)
    assert "Queues and buffers" not in printed(alone)


def test_page_without_changes_or_windows_mentions_neither(sample):
    text = html.render(sample("input_bound"))
    assert "changed permanently" not in text
    assert "Pale: warm-up, left out." in text
    assert "Marks below" not in text
    assert "Queues and buffers" not in text


@FEW
@given(
    st.lists(st.booleans(), min_size=2, max_size=600),
    st.integers(1, 599),
)
def test_places_and_numbers_agree(profiled, change):
    durations = [MS for p in profiled if not p]
    traced, before = [], 0
    for flag, last in zip(profiled, [False, *profiled], strict=False):
        if flag and last:
            traced[-1] = Traced(before, traced[-1].steps + 1)
        elif flag:
            traced.append(Traced(before, 1))
        before += not flag
    change = min(change, len(profiled) - 1)
    steps = some_steps(
        1,
        warm_up=0,
        count=len(durations),
        durations_ns=tuple(durations),
        traced=tuple(traced),
        stretches=(
            Stretch(1, change, MS, MS, 0, True),
            Stretch(change + 1, len(profiled), MS, MS, 0, False),
        ),
    )
    drawn = chart.step_chart(steps)
    if drawn is None:
        assert len(durations) < 2
        return
    numbers = [i + 1 for i, flag in enumerate(profiled) if not flag]
    if drawn.steps_per_bar == 1:
        assert [b.text.split(":")[0] for b in drawn.bars] == [f"Step {n}" for n in numbers]
        assert [bar.other for bar in drawn.bars] == [n > change for n in numbers]
    assert sum(m.text.startswith("Step") for m in drawn.traced) == len(traced)
