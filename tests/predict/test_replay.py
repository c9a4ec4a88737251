"""Replays of drawn steps: as recorded, and after edits whose result is known by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.analyse.facts import Facts
from stepwhy.engine.opening import open_one
from stepwhy.predict import edges, graph
from stepwhy.predict.device import price_replayed
from stepwhy.predict.edges import Cause, Evidence
from stepwhy.predict.graph import build_graph
from stepwhy.predict.quality import judge
from stepwhy.predict.replay import recorded, run
from stepwhy.result import Edit, Prediction, Refusal, parse_edit
from stepwhy.trace.notation import parse
from tests.terminal.hostile import kineto

UNIT = 10_000  # ns per column

# Each step of 10 columns: one of Python, a launch that takes one, a kernel that begins one after
# the launch began, a wait until it ends at 9, and one of Python.
WAITING = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   op     | ooo       ooo       ooo      |  o=aten::mm
    main   launch | l         l         l        |  l=cudaLaunchKernel
    main   sync   |    wwwww     wwwww     wwwww |  w=cudaDeviceSynchronize
    GPU:0  kernel |  [gemm-]   [gemm-]   [gemm-] |
    arrows: l -> gemm
"""

# The host needs 4 columns per step, the device 10: launches run ahead, and nothing waits.
AHEAD = """
    unit: 10 us
    framework: pytorch
    main   step   |[--][--][--]                    |
    main   op     |oooooooooooo                    |  o=aten::mm
    main   launch |l   l   l                       |  l=cudaLaunchKernel
    GPU:0  kernel | [--gemm--][--gemm--][--gemm--] |
    arrows: l -> gemm
"""

# The host takes 9 columns per step to run two operations, of which the device needs 2.
LAUNCHING = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   op     |oooocccccpoooocccccpoooocccccp|  o=aten::mm  c=aten::_to_copy  p=aten::view
    main   launch |  l    m    l    m    l    m  |  l=cudaLaunchKernel  m=cudaLaunchKernel
    GPU:0  kernel |   g    k    g    k    g    k |  g=gemm  k=cast
    arrows: l -> g, m -> k
"""

# Each step of 12 columns: a product of two, then an optimizer that runs three operations of two
# columns, each followed by one of Python or two. Two of its kernels have one name.
UPDATING = """
    unit: 10 us
    framework: pytorch
    main   step      |[----------][----------][----------]|
    main   framework |  OOOOOOOOOO  OOOOOOOOOO  OOOOOOOOOO|  O=Optimizer.step#Lion.step
    main   op        |ppaa aa bb  ppaa aa bb  ppaa aa bb  |  p=aten::mm  a=aten::mul_  b=aten::sign
    main   launch    |k  l  m  n  k  l  m  n  k  l  m  n  |
    GPU:0  kernel    | w  x  y  z  w  x  y  z  w  x  y  z |  w=gemm  x=mul  y=mul  z=sign
    arrows: k -> w, l -> x, m -> y, n -> z
"""

LOADING = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   input  |iiii      iiii      iiii      |  i=DataLoader.__next__
    main   op     |    oo        oo        oo    |  o=aten::mm
    main   launch |    l         l         l     |  l=cudaLaunchKernel
    main   sync   |      www       www       www |  w=cudaDeviceSynchronize
    GPU:0  kernel |     [-k]      [-k]      [-k] |
    arrows: l -> k
"""

EXCHANGING = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   op     |oo        oo        oo        |  o=aten::mm
    main   launch |l         l         l         |  l=cudaLaunchKernel
    main   launch | m         m         m        |  m=cudaLaunchKernel
    main   sync   |   wwwwwww   wwwwwww   wwwwwww|  w=cudaDeviceSynchronize
    GPU:0  kernel |[gemm]    [gemm]    [gemm]    |
    GPU:0/2 collective |      [rs]      [rs]      [rs]|
    arrows: l -> gemm, m -> rs
"""

# The host begins the first step while the device works on what was launched before it.
BEHIND = """
    unit: 10 us
    framework: pytorch
    main   step   |    [--][--][--]                         |
    main   op     |oooooooooooooooo                         |  o=aten::mm
    main   launch |l   l   l   l                            |  l=cudaLaunchKernel
    GPU:0  kernel | [--gemm--][--gemm--][--gemm--][--gemm--]|
    arrows: l -> gemm
"""

# The fourth launch waits until there is room, and returns while the second kernel runs.
FULL = """
    unit: 10 us
    framework: pytorch
    main   step   |[------------][---------------]|
    main   op     |oooooooooooooo                 |  o=aten::mm
    main   launch |lmnppppppppp                   |  l=cudaLaunchKernel  m=cuLaunchKernel  n=cudaLaunchKernelExC  p=hipLaunchKernel
    GPU:0  kernel | aaaaaabbbbbbccccccdddddd      |  a=gemm1  b=gemm2  c=gemm3  d=gemm4
    arrows: l -> a, m -> b, n -> c, p -> d
"""  # noqa: E501

# Each step copies a batch for 5 columns, in a call that returns when the copy has ended.
COPYING = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   op     |cccccco   cccccco   cccccco   |  c=aten::copy_  o=aten::mm
    main   launch |xxxxxxl   xxxxxxl   xxxxxxl   |  x=cudaMemcpyAsync  l=cudaLaunchKernel
    GPU:0  memcpy | hhhhh     hhhhh     hhhhh    |  h=Memcpy HtoD {copy: h2d; bytes: 256 KiB; pageable: yes}
    GPU:0  kernel |       kkk       kkk       kkk|  k=gemm
    arrows: x -> h, l -> k
"""  # noqa: E501


def facts_of(drawing):
    return Facts(parse(drawing))


def remaining(drawing, *edits):
    """The predicted step at its best and at its least, in columns."""
    parsed = tuple(parse_edit(e) if isinstance(e, str) else e for e in edits)
    found = price_replayed(facts_of(drawing), parsed)
    assert isinstance(found, Prediction), found
    return found.structural_low_ns / UNIT, found.structural_high_ns / UNIT


@pytest.mark.parametrize(
    "drawing",
    [WAITING, AHEAD, LOADING, EXCHANGING, LAUNCHING, BEHIND, COPYING],
    ids=["waiting", "ahead", "loading", "exchanging", "launching", "behind", "copying"],
)
def test_a_replay_without_a_change_is_the_record(drawing):
    graph = build_graph(facts_of(drawing))
    assert run(graph, recorded(graph)).start.tolist() == graph.nodes.start_ns.tolist()
    facts = facts_of(drawing)
    found = price_replayed(facts, ())
    assert (found.low_ns, found.high_ns) == (facts.wall_ns, facts.wall_ns)


@pytest.mark.parametrize(
    ("drawing", "edits", "expected"),
    [
        # 1 until the launch, 1 of delay, 3.5 of the kernel, 1 of Python.
        (WAITING, ["kernels=2x"], (6.5, 6.5)),
        # 1 of Python, the 2 between launch and wait, and 1 of Python.
        (WAITING, ["kernels=gone"], (4, 4)),
        # The wait covers the launch: the kernel begins as early as before.
        (WAITING, ["launches=gone"], (10, 10)),
        (WAITING, ["ops:aten::mm=2x"], (6.5, 6.5)),
        # The host saves 5 of its 10 columns along with the cast, and half of them with half of it.
        (LAUNCHING, [Edit("ops", "gone", "aten::_to_copy", cost_ns=UNIT)], (5, 5)),
        (LAUNCHING, [Edit("ops", "gone", "aten::_to_copy", cost_ns=UNIT // 2)], (7.5, 7.5)),
        # Fusing saves at least half of the operations' time.
        (LAUNCHING, [Edit("kernels", "fused", cost_ns=UNIT, host_ns=5 * UNIT)], (5, 7.5)),
        (LAUNCHING, [Edit("kernels", "fused", cost_ns=UNIT)], (10, 10)),
        # One operation instead of three leaves a third of the optimizer's 10 columns, or of the
        # 6 of its operations alone.
        (UPDATING, ["ops:Optimizer.step#Lion.step=fused"], (5 + 1 / 3, 8)),
        # The device has 10 columns of work per step, whatever the host does, and begins one late.
        (AHEAD, ["dispatch=gone"], (10 + 1 / 3, 10 + 1 / 3)),
        # The device waits for launches in 8 of 10 columns; of two parts, the other one stays.
        (LAUNCHING, [Edit("dispatch", "gone", cost_ns=8 * UNIT)], (2, 4)),
        (AHEAD, ["kernels=2x"], (5 + 1 / 3, 5 + 1 / 3)),
        # What was launched before the first step belongs to none.
        (BEHIND, ["kernels=2x"], (5, 5)),
        # With kernels of one column the host, which needs 4, decides.
        (AHEAD, ["kernels=10x"], (4, 4)),
        (LOADING, ["input=free"], (6, 6)),
        # The kernel begins 1 after the step, takes 4/3, and 1 of Python follows.
        (LOADING, ["input=free", "kernels=3x"], (3 + 1 / 3, 3 + 1 / 3)),
        # The exchange waits for the kernel on another stream: 4 of 10 columns.
        (EXCHANGING, ["communication=overlapped"], (6, 7.2)),
        (EXCHANGING, ["kernels=2x"], (7, 7)),
    ],
)
def test_the_step_after_an_edit(drawing, edits, expected):
    assert remaining(drawing, *edits) == pytest.approx(expected, abs=0.01)


def test_pinned_copies_run_beside_the_kernels_at_best():
    best, least = remaining(COPYING, "copies:h2d=pinned")
    assert best < 6 < least < 10


@pytest.mark.parametrize(("full", "count"), [(2, 1), (3, 0)])
def test_a_long_launch_waits_for_room_in_a_full_queue(monkeypatch, full, count):
    monkeypatch.setattr(edges, "_FULL_QUEUE", full)
    found = build_graph(facts_of(FULL)).edges
    assert (found.cause == Cause.QUEUE).sum() == count


@pytest.mark.parametrize(
    ("drawing", "edit", "reason"),
    [
        (WAITING, "input=free", "The steps do not wait for input."),
        (
            WAITING,
            "kernels:*conv*=2x",
            "The trace has no kernels of the name *conv* on the device.",
        ),
        (WAITING, "communication=gone", "The trace has no communication on the device."),
        (AHEAD, "syncs=gone", "The driving threads do not wait for the device in calls."),
        (
            WAITING,
            "ops:aten::mm=on:GPU:1",
            "A replay of one run does not show what ops:aten::mm=on:GPU:1 does.",
        ),
    ],
)
def test_an_edit_of_nothing_is_refused(drawing, edit, reason):
    found = price_replayed(facts_of(drawing), (parse_edit(edit),))
    assert isinstance(found, Refusal)
    assert found.reason == reason


def test_a_trace_whose_waits_were_not_recorded_does_not_qualify():
    # The same with columns of 1 ms: nothing shows why 3 kernels begin 1 ms after their launch, nor
    # what the host does in the 2 ms between the wait of one step and the launch of the next.
    quality = judge(facts_of(WAITING.replace("10 us", "1 ms")))
    assert not quality.qualifies
    assert quality.reasons == (
        "For 23 % of the critical path, the trace does not show what was waited for.",
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    drawing=st.sampled_from([WAITING, AHEAD, LOADING, EXCHANGING, LAUNCHING]),
    factors=st.lists(st.floats(1, 50), min_size=2, max_size=2).map(sorted),
    what=st.sampled_from(["kernels", "ops", "launches", "dispatch"]),
)
def test_gains_grow_with_the_factor_and_never_exceed_the_step(drawing, factors, what):
    edits = [f"{what}={1 / f}x" if what == "launches" else f"{what}={f}x" for f in factors]
    found = [price_replayed(facts_of(drawing), (parse_edit(e),)) for e in edits]
    if any(isinstance(f, Refusal) for f in found):
        return
    slower, faster = found
    assert 0 <= faster.low_ns <= slower.low_ns + 1000 <= slower.step_ns + 1000
    assert faster.high_ns <= slower.high_ns + 1000


RECORDED = """
    unit: 10 us
    framework: pytorch
    main   step    |[----------]|
    main   launch  |l  m        |  l=cudaLaunchKernel  m=cudaLaunchKernel
    main   runtime | rw         |  r=cudaEventRecord  w=cudaStreamWaitEvent
    GPU:0  kernel  |[gemm]      |
    GPU:0/2 kernel |        [--]|
    arrows: l -> gemm, m -> kernel
    waits: time_ns | kind | slice | waiting | awaited | event
    20 us   | stream_event | w     | GPU:0/2 | GPU:0   | r
"""


def test_a_recorded_wait_of_a_stream_holds_however_late_it_ends():
    # The kernel begins 20 µs after what it waited for: too late to infer that from times.
    without = build_graph(facts_of(RECORDED.split("    waits:", maxsplit=1)[0]))
    assert Cause.EVENT not in without.edges.cause
    graph = build_graph(facts_of(RECORDED))
    (edge,) = (graph.edges.cause == Cause.EVENT).nonzero()[0]
    assert graph.edges.evidence[edge] == Evidence.RECORDED
    ends = [
        graph.nodes.start_ns[graph.edges.source[edge]],
        graph.nodes.start_ns[graph.edges.target[edge]],
    ]
    assert [ns // UNIT for ns in ends] == [0, 8]


def test_work_that_is_late_when_a_step_begins_makes_no_circle(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(kineto())
    assert not judge(Facts(open_one(str(path)).trace)).qualifies


@pytest.mark.parametrize(
    ("drawing", "edit"),
    [(WAITING, "kernels:gemm=2x"), (AHEAD, "kernels:gemm=2x"), (EXCHANGING, "communication=gone")],
)
def test_of_a_long_trace_the_first_steps_are_replayed(drawing, edit, monkeypatch):
    whole = remaining(drawing, edit)
    monkeypatch.setattr(graph, "MOST_WORK", 2)
    facts = facts_of(drawing)
    assert len(build_graph(facts).steps.starts) < len(facts.steps.starts)
    assert remaining(drawing, edit) == pytest.approx(whole, rel=0.1)
