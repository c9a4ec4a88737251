"""Descriptions and charts of memory."""

import pytest
from msgspec import structs
from tests.show.test_html import Page
from tests.show.test_terminal import printed, unwrapped

from stepwhy.result import BatchRoom, MemoryHolder, MemoryUse
from stepwhy.show import html, memory
from stepwhy.show.html.memory import HEIGHT, WIDTH, memory_charts
from stepwhy.show.terminal.memory import level_line

MS = 1_000_000
GIB = 1 << 30
USE = MemoryUse(
    name="GPU:0",
    kind="device",
    over="step",
    span_ns=10 * MS,
    base_bytes=2 * GIB,
    peak_bytes=8 * GIB,
    peak_ns=5 * MS,
    peak_phase="backward",
    peak_name="aten::mm",
    capacity_bytes=80 * GIB,
    holders=(
        MemoryHolder("aten::conv2d", "forward", 12, 5 * GIB),
        MemoryHolder("", "unknown", 1, GIB),
    ),
    others=3,
    series=((0, 2 * GIB), (2 * MS, 6 * GIB), (5 * MS, 8 * GIB), (8 * MS, 2 * GIB)),
    room=BatchRoom(11.7, 17.5, 2 * GIB, 6 * GIB, 72 * GIB),
)
PROCESS = MemoryUse("process", "host", "run", 9 * MS, GIB, GIB, 0, series=((0, GIB),))


def change(**values):
    return structs.replace(USE, **values)


@pytest.mark.parametrize(
    ("use", "state"),
    [
        (USE, "8.00 GiB at the peak, of 80.0 GiB; each step starts with 2.00 GiB"),
        (
            change(base_bytes=None, capacity_bytes=None),
            "8.00 GiB above the start of the step at the peak",
        ),
        (
            change(growth_bytes=GIB, capacity_bytes=None),
            (
                "8.00 GiB at the peak; each step starts with 2.00 GiB, "
                "and 1.00 GiB more than the previous one"
            ),
        ),
        (structs.replace(PROCESS, swapped_bytes=GIB // 2),
         "1.00 GiB at the peak; 512 MiB of it swapped out"),
    ],
)  # fmt: skip
def test_states(use, state):
    assert memory.use_state(use) == state


def test_peak_has_time_phase_and_operation():
    assert memory.peak_words(USE) == "5.00 ms of 10.0 ms, backward, in aten::mm"
    assert memory.peak_words(PROCESS) == "0 ns of 9.00 ms"


@pytest.mark.parametrize(
    ("low", "high", "times"),
    [
        (1.5, 2.5, "1.5 to 2.5 times"),
        (1.5, None, "1.5 or more times"),
        (1.5, 1.5, "1.5 times"),
        (11.7, 17.5, "more than 10 times"),
    ],
)
def test_batch_room_is_an_interval_with_its_assumption(low, high, times):
    text = memory.room_sentence(BatchRoom(low, high, GIB, GIB, 4 * GIB))
    assert text.startswith(f"A batch {times} as large would fit into 4.00 GiB, if ")
    assert ("apart from gradients" in text) == (low != high)


def test_plain_report_shows_memory_only_if_relevant(sample):
    healthy = structs.replace(sample("healthy"), memory=(USE,))
    assert "Memory" not in printed(healthy)
    shown = unwrapped(printed(healthy, show_all=True))
    assert "GPU:0: 8.00 GiB at the peak, of 80.0 GiB" in shown
    assert "62 %" in shown
    assert "no operation" in shown
    full = structs.replace(healthy, memory=(change(capacity_bytes=9 * GIB), PROCESS))
    assert "1 more with --all" in printed(full)


def test_trace_of_memory_only_shows_it(sample):
    healthy = sample("healthy")
    nothing = structs.replace(healthy.breakdown, wall_ns=0)
    result = structs.replace(healthy, breakdown=nothing, memory=(USE,))
    assert memory.matters(result)
    assert not memory.matters(structs.replace(result, memory=()))


def test_small_pools_are_left_out(sample):
    tiny = change(name="CPU", kind="host", peak_bytes=9)
    result = structs.replace(sample("healthy"), memory=(USE, tiny))
    assert memory.shown_uses(result) == [USE]
    assert memory.shown_uses(structs.replace(result, memory=())) == []


def test_the_line_holds_a_level_until_the_next():
    assert level_line(USE, 10) == "▃▃▆▆▆███▃▃"


def test_the_picture_marks_base_and_peak(sample):
    result = structs.replace(sample("healthy"), memory=(USE, PROCESS))
    first, second = memory_charts(result)
    assert (first.peak_x, second.base_y) == (WIDTH / 2, None)
    assert first.base_y == round(HEIGHT * (1 - 2 / (1.08 * 8)), 1)
    assert first.path.startswith("M0 ")
    assert first.path.endswith(f"H{WIDTH}")


def test_the_page_shows_picture_and_holders(sample):
    text = html.render(structs.replace(sample("healthy"), memory=(USE,)))
    Page(text)
    assert text.count('class="levels memory"') == 1
    assert "aten::conv2d" in text
    assert "And 3 smaller allocations." in text
    assert 'id="memory"' not in html.render(sample("healthy"))
