"""What bounds the step, and when one cannot tell: every branch on a step of 100 ms."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.verdict import UNSEEN_CONFIDENCE, decide, first_to_fix, start_up_share
from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.host import checkpoint_stall
from stepwhy.diagnose.shared.rule import examine
from stepwhy.result import Finding
from stepwhy.result.reasons import Gap, Lack, Lead, Limited, NoEvidence, NotTraced
from stepwhy.trace import Copy, Kind
from stepwhy.trace.notation import parse

HOST = {
    "input_wait": Kind.INPUT, "compile": Kind.COMPILE, "sync": Kind.SYNC, "dispatch": Kind.OP,
    "python": Kind.PYTHON, "storage": Kind.STORAGE,
}  # fmt: skip
DEVICE = {"compute": Kind.KERNEL, "communication": Kind.COLLECTIVE, "transfer": Kind.MEMCPY}


def fill(line, at=0, **shares):
    """Lay categories one after the other; each takes as many ms as its share has percent."""
    for category, length in shares.items():
        if category in DEVICE:
            copy = {"copy": int(Copy.H2D)} if category == "transfer" else {}
            line.add(line.stream(), DEVICE[category], at, at + length, **copy)
        elif category in HOST:
            line.add(line.thread(), HOST[category], at, at + length)
        at += length
    return line


def step(**shares):
    """A marked step of 100 ms that is divided like this; what is left over is unexplained."""
    return fill(Timeline().steps(0, 100), **shares)


def verdict(line, **meta):
    return decide(Facts(line.trace(**meta)))


# --- one cannot tell -----------------------------------------------------------------------------


def unknown(line, **meta):
    result = verdict(line, **meta)
    assert (result.bound_by, result.confidence) == ("unknown", 0.0)
    return result.reason


def queue_record(*fills):
    """Only samples of a queue with 32 places."""
    rows = "".join(
        f"{i} s | images | tf1-queue | {fill} | 32 | 0\n" for i, fill in enumerate(fills)
    )
    return Facts(parse(f"levels: time_ns | queue | kind | value | capacity | reserve\n{rows}"))


def test_a_queue_that_was_always_empty_shows_a_wait_for_input():
    found = decide(queue_record(*[0] * 19, 4))
    assert (found.bound_by, found.confidence) == ("input", UNSEEN_CONFIDENCE)
    assert found.reason.name == "images"
    assert found.reason.share == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("fills", [[0] * 9, [0] * 15 + [9] * 5, [32] * 20])
def test_a_queue_that_fills_or_was_rarely_sampled_shows_nothing(fills):
    assert decide(queue_record(*fills)).reason == Gap(Lack.CONTENT_BESIDE_QUEUES)


def test_device_rows_behind_the_end_of_a_cut_file():
    trace = step(dispatch=100).trace(device_expected=True)
    assert decide(Facts(trace)).reason == Gap(Lack.DEVICE_ACTIVITY)
    trace.health.count("json-truncated", "warning", "The file is cut off.", dropped=0)
    assert decide(Facts(trace)).reason == Gap(Lack.DEVICE_ACTIVITY_CUT_OFF)


def test_nothing_recorded():
    assert unknown(Timeline()) == Gap(Lack.EVENTS)


def test_only_instants_recorded():
    line = Timeline()
    line.add(line.thread(), Kind.OP, 5, 5)
    assert unknown(line) == Gap(Lack.EVENTS)


def test_an_accelerator_that_was_used_but_not_recorded():
    line = Timeline().steps(0, 100)
    for i in range(90):
        line.add(line.thread(), Kind.OP, i, i + 1)
    assert unknown(line, device_expected=True) == Gap(Lack.DEVICE_ACTIVITY)


def test_a_record_whose_importer_says_that_it_cannot_show_it():
    line = Timeline().steps(0, 100)
    for i in range(90):
        line.add(line.thread(), Kind.OP, i, i + 1)
    assert unknown(line, limit="it is a sketch. Record it") == Limited("it is a sketch. Record it")
    facts = Facts(line.trace(limit="it is a sketch. Record it"))
    assert facts.breakdown["unexplained"] == facts.wall_ns == 100 * MS
    assert facts.activities == []


def test_an_accelerator_beside_recorded_cpu_executors():
    line = Timeline().steps(0, 100)
    for i in range(90):
        line.add(line.executor(), Kind.KERNEL, i, i + 1)
    assert unknown(line, device_expected=True) == Gap(Lack.DEVICE_ACTIVITY)


def test_ranks_merged_into_one_file():
    line = Timeline()
    for process in (1, 2):
        thread = line.thread(f"main of {process}", process=process)
        line.steps(0, 100, track=thread)
        for i in range(20):
            line.launch((i, i + 1), (i + 1, i + 2), i + 1, track=thread)
    assert unknown(line) == Gap(Lack.DEVICE_OWNERS, 2)


def test_ranks_merged_under_one_process_id():
    line = Timeline().steps(0, 100)
    for rank in (0, 30):
        for i in range(1, 21):
            at = rank + i
            line.launch((at, at + 1), (at + 1, at + 2), i, stream=line.stream(f"GPU:{rank}"))
    assert unknown(line) == Gap(Lack.DEVICE_OWNERS)


def test_a_record_that_was_sampled():
    line = Timeline().steps(0, 100)
    for i in range(9):
        line.add(line.thread(), Kind.OP, 10 * i, 10 * i + 10)
    assert unknown(line) == Gap(Lack.OPERATIONS, 9)
    line.add(line.thread(), Kind.OP, 90, 100)
    assert verdict(line).bound_by == "compute"


def test_a_record_of_single_calls():
    line = Timeline()
    for i in range(9):
        line.add(line.stream(), Kind.KERNEL, 10 * i, 10 * i + 10)
    assert unknown(line) == Gap(Lack.WHOLE_STEP, 9)
    line.add(line.stream(), Kind.KERNEL, 90, 100)
    assert verdict(line).bound_by == "compute"


def test_a_slice_of_a_longer_run():
    line = Timeline()
    for i in range(10):
        line.add(line.stream(), Kind.KERNEL, i, i + 1)
    line.add(line.stream(), Kind.KERNEL, 99, 100)
    line.add(line.thread(), Kind.SYNC, 0, 99)
    assert unknown(line) == Gap(Lack.AWAITED_WORK, 0.89)


def test_the_same_wait_in_a_marked_step_is_the_hosts():
    assert verdict(step(compute=11, sync=89)).bound_by == "host"


def test_too_little_evidence():
    assert unknown(step(compute=20, dispatch=29)) == NoEvidence(0.51, Lead.RECORD_AGAIN)
    recorded = unknown(step(compute=20, dispatch=29), signals=frozenset({"host-ops"}))
    assert recorded == NoEvidence(0.51, Lead.RECORD_STACKS)
    assert verdict(step(compute=21, dispatch=29)).bound_by == "host"


# --- start-up ------------------------------------------------------------------------------------


def test_a_record_that_is_mostly_warm_up():
    line = Timeline().steps(0, 400, 500, 600, 700)
    for at in (0, 400, 500, 600):
        fill(line, at, compute=90)
    facts = Facts(line.trace())
    assert start_up_share(facts) == pytest.approx(300 / 700)
    assert decide(facts).bound_by == "compute"

    line = Timeline().steps(0, 1000, 1100, 1200)
    for at in (0, 1000, 1100):
        fill(line, at, compute=90)
    facts = Facts(line.trace())
    assert start_up_share(facts) == pytest.approx(900 / 1200)
    result = decide(facts)
    assert result.bound_by == "startup"
    assert result.reason.share == start_up_share(facts)


def test_a_long_start_does_not_hide_three_marked_steps():
    line = Timeline().steps(0, 900, 1000, 1100, 1200)
    for at in (0, 900, 1000, 1100):
        fill(line, at, compute=90)
    facts = Facts(line.trace())
    assert start_up_share(facts) == pytest.approx(800 / 1200)
    assert decide(facts).bound_by == "compute"


def one_pass(**shares):
    """A record of 100 ms without step markers, of ten kernels or more."""
    line = fill(Timeline(), **{**shares, "compute": shares["compute"] - 10})
    for i in range(10):
        line.add(line.stream(), Kind.KERNEL, 90 + i, 91 + i)
    return line


def test_set_up_of_a_single_pass_is_set_aside():
    result = verdict(one_pass(dispatch=1, compile=59, communication=20, compute=20))
    assert result.bound_by == "communication"
    bound = result.reason
    assert (bound.set_up_ns, bound.wall_ns, bound.time_ns) == (59 * MS, 41 * MS, 20 * MS)
    assert bound.lost_to is None


def test_a_single_pass_that_is_hardly_more_than_set_up():
    assert (
        verdict(one_pass(dispatch=1, compile=69, communication=20, compute=10)).bound_by
        == "startup"
    )


def test_a_step_that_is_mostly_compilation():
    result = verdict(step(compute=20, compile=60, dispatch=20))
    assert result.bound_by == "startup"
    assert result.reason.share == 0.6


def test_compilation_in_every_step_of_a_watched_run_is_no_start():
    line = Timeline().steps(0, 100)
    fill(line, compute=20, compile=60, dispatch=20)
    for i in range(4):
        line.mark(1000 + 100 * i, 1100 + 100 * i)
    result = decide(Facts(line.trace()))
    assert result.bound_by == "startup"
    assert (result.reason.by, result.reason.time_ns) == ("startup", 60 * MS)


def test_steps_that_were_timed_but_not_traced():
    line = Timeline()
    for i in range(4):
        line.mark(10 * i, 10 * i + 10)
    facts = Facts(line.trace(framework="jax"))
    assert facts.breakdown["unexplained"] == facts.wall_ns == 10 * MS
    assert decide(facts).reason == Gap(Lack.TRACED_STEPS)
    meta = {"untraced": "the disk was full", "untraced_advice": "Free some space"}
    reason = unknown(line, framework="jax", **meta)
    assert reason == NotTraced(4, "the disk was full", "Free some space")
    # No number of steps brings a window where nothing can be traced.
    assert unknown(line) == Gap(Lack.FRAMEWORK)
    line.mark(40, 50, profiled=1)  # a window that was lost
    assert unknown(line, framework="jax", **meta).steps == 4


def test_few_operations_of_a_window_that_stepwhy_traced_are_all_there_are():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 90)
    assert unknown(line) == Gap(Lack.OPERATIONS, 1)
    for i in range(8):
        line.mark(200 + 100 * i, 300 + 100 * i)
    assert verdict(line, framework="tensorflow").bound_by != "unknown"


def test_steps_that_compile_every_time_need_no_trace():
    line = Timeline()
    for i in range(8):
        line.mark(10 * i, 10 * i + 10, built=8)
    facts = Facts(line.trace(framework="jax"))
    assert (facts.breakdown["compile"], facts.breakdown["unexplained"]) == (8 * MS, 2 * MS)
    result = decide(facts)
    assert (result.bound_by, result.confidence) == ("startup", 0.64)
    assert (result.reason.time_ns, result.reason.wall_ns) == (8 * MS, 10 * MS)


def saves(line, at):
    """A checkpoint of 8 ms."""
    kind = line.builder.intern("save")
    line.builder.add("events", kind=kind, start_ns=at * MS, dur_ns=8 * MS, name=kind)


def test_steps_that_save_every_time_need_no_trace():
    line = Timeline()
    for i in range(8):
        line.mark(10 * i, 10 * i + 10)
        saves(line, 10 * i + 1)
    facts = Facts(line.trace(framework="pytorch", signals=frozenset({"step-log"})))
    assert (facts.breakdown["storage"], facts.breakdown["unexplained"]) == (8 * MS, 2 * MS)
    result = decide(facts)
    assert (result.bound_by, result.confidence) == ("storage", 0.64)
    finding = examine(checkpoint_stall, facts)
    assert (finding.verdict, finding.cost_ns_per_step) == ("found", 8 * MS)


def test_steps_that_seldom_save_need_a_trace():
    line = Timeline()
    for i in range(8):
        line.mark(10 * i, 10 * i + 10)
    saves(line, 1)
    facts = Facts(line.trace(framework="pytorch", signals=frozenset({"step-log"})))
    assert facts.breakdown["storage"] == 0
    assert examine(checkpoint_stall, facts).verdict == "incomplete"


def watched(**counters):
    """A watched step of which nothing is known, with counters of the machine."""
    line = step(compute=15, dispatch=15)
    for i in range(20):
        line.mark(1000 + 100 * i, 1100 + 100 * i)
    for name, values in counters.items():
        for at, value in enumerate(values):
            name_row = line.builder.intern(name)
            line.builder.add("counters", name=name_row, time_ns=at, value=value)
    return line


def test_what_to_do_about_time_without_evidence():
    assert unknown(step(compute=15, dispatch=15)) == NoEvidence(0.7, Lead.RECORD_AGAIN)
    assert unknown(watched()).lead is Lead.BETWEEN_CALLS
    reason = unknown(watched(cpu_ns=[0, 6], run_delay_ns=[0, 4]))
    assert (reason.lead, reason.lead_share) == (Lead.BUSY_CORES, 0.4)
    line = watched()
    at, leaf = line.builder.intern("train.py(9): wait"), line.builder.intern("")
    line.builder.add("samples", line=at, package=leaf, count=60)
    assert unknown(line) == NoEvidence(0.7, Lead.SAMPLED_LINE, 1.0, "train.py(9): wait")


def test_a_trace_without_length_has_no_start_up():
    assert start_up_share(Facts(Timeline().trace())) == 0.0


# --- what bounds it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"compute": 70, "input_wait": 30}, "compute"),
        ({"compute": 69, "input_wait": 31}, "input"),
        ({"compute": 50, "communication": 40, "dispatch": 10}, "communication"),
        ({"compute": 50, "transfer": 40, "dispatch": 10}, "transfer"),
        ({"compute": 50, "storage": 40, "dispatch": 10}, "storage"),
        ({"compute": 50, "compile": 40, "dispatch": 10}, "startup"),
        ({"compute": 50, "sync": 50}, "host"),
        ({"compute": 50, "dispatch": 50}, "host"),
        ({"compute": 50, "python": 50}, "host"),
        # No single host category is the largest cause, but together they are.
        ({"compute": 40, "input_wait": 15, "sync": 15, "dispatch": 15, "python": 15}, "host"),
        # A specific cause is the better answer when it comes close.
        ({"compute": 40, "input_wait": 25, "dispatch": 35}, "input"),
        ({"compute": 40, "input_wait": 24, "dispatch": 36}, "host"),
        # A tenth of the step is no bound.
        ({"compute": 65, "input_wait": 9, "dispatch": 9}, "compute"),
        ({"compute": 65, "input_wait": 10, "dispatch": 9}, "input"),
    ],
)
def test_bound(shares, expected):
    assert verdict(step(**shares)).bound_by == expected


def test_the_reason_carries_the_numbers():
    bound = verdict(step(compute=20, sync=60, python=20)).reason
    assert (bound.by, bound.host) == ("host", "sync")
    assert (bound.time_ns, bound.wall_ns) == (80 * MS, 100 * MS)
    assert (bound.devices, bound.kind, bound.locked) == (1, "gpu", False)
    assert (bound.compute_ns, bound.set_up_ns, bound.lost_to) == (20 * MS, 0, None)


def test_the_reason_names_the_largest_loss_of_a_step_that_computes():
    bound = verdict(step(compute=75, dispatch=15, input_wait=10)).reason
    assert (bound.by, bound.lost_to, bound.lost_ns) == ("compute", "host", 15 * MS)
    assert verdict(step(compute=91, dispatch=9)).reason.lost_to is None


def test_the_reason_counts_the_devices_that_idle():
    several = step(compute=60, input_wait=40)
    several.add(several.stream("GPU:1"), Kind.KERNEL, 0, 1)
    assert verdict(several).reason.devices == 2
    cpu = Timeline().steps(0, 100)
    for i in range(60):
        cpu.add(cpu.thread(), Kind.OP, i, i + 1)
    cpu.add(cpu.thread(), Kind.INPUT, 60, 100)
    assert verdict(cpu).reason.kind == "cpu"


@pytest.mark.parametrize(
    ("bound_by", "finding", "is_named"),
    [
        ("input", Finding("serial-input", "found", "Read in parallel", 5), True),
        ("input", Finding("input-bound", "found", "Prefetch", 5), False),
        ("input", Finding("memory-headroom", "found", "Use a larger batch", None), False),
        ("input", Finding("serial-input", "clear", "Input is read in parallel"), False),
        ("unknown", Finding("serial-input", "found", "Read in parallel", 5), True),
        ("unknown", Finding("wall-device-gap", "found", "Record what the step does", 5), False),
    ],
)
def test_another_cause_is_fixed_first(bound_by, finding, is_named):
    assert first_to_fix(bound_by, [finding]) == (finding if is_named else None)


# --- confidence ----------------------------------------------------------------------------------


def test_confidence_of_a_clear_case_is_full():
    assert verdict(step(compute=50, input_wait=50)).confidence == 1.0


def test_confidence_falls_with_what_is_unexplained():
    assert verdict(step(compute=40, input_wait=40)).confidence == 0.8


def test_confidence_falls_with_a_close_call():
    assert verdict(step(compute=60, input_wait=20, dispatch=20)).confidence == 0.8


def test_confidence_halves_when_data_was_lost():
    line = step(compute=50, input_wait=50)
    line.builder.health.count("json-truncated", "error", "", dropped=False)
    assert verdict(line).confidence == 0.5


def test_confidence_falls_when_the_steps_are_guessed():
    line = Timeline()
    for i in range(10):
        line.add(line.stream(), Kind.KERNEL, 10 * i, 10 * i + 10)
    assert verdict(line).confidence == 0.8
    assert verdict(line, signals=frozenset({"whole-step"})).confidence == 1.0
    line = Timeline()
    for at in (0, 100, 200):
        fill(line, at, input_wait=50, compute=50)
    line.add(line.thread(), Kind.OP, 299, 300)
    assert verdict(line).confidence == pytest.approx(0.9, abs=0.01)


def test_a_device_that_idles_without_a_record_of_the_host():
    line = Timeline()
    for i in range(20):
        line.add(line.stream(), Kind.KERNEL, 10 * i, 10 * i + 7)
    assert unknown(line).lack is Lack.CAUSE_OF_IDLE_TIME


def test_confidence_halves_when_device_time_is_a_guess():
    line = Timeline().steps(0, 100)
    line.add(line.stream(), Kind.KERNEL, 0, 100)
    certain = decide(Facts(line.trace())).confidence
    line.builder.health.count("guessed-device-time", "warning", "", count=1, dropped=False)
    assert decide(Facts(line.trace())).confidence == certain / 2


def test_a_partial_capture_cannot_tell():
    line = Timeline().steps(0, 10)
    line.add(line.stream(), Kind.KERNEL, 0, 9)
    trace = line.trace()
    trace.health.count("device-without-kernels", "error", "", dropped=False)
    assert decide(Facts(trace)).reason == Gap(Lack.KERNELS_OF_A_DEVICE)


def test_few_fused_operations_are_a_step_of_jax():
    line = Timeline().steps(0, 10)
    line.add(line.thread(), Kind.OP, 0, 9)
    assert decide(Facts(line.trace())).bound_by == "unknown"
    assert decide(Facts(line.trace(framework="jax"))).bound_by == "compute"
