"""Steps from the calls of compiled functions."""

from __future__ import annotations

import json

from stepwhy.read.formats.run_directory.log_files import Gap, LogLines
from stepwhy.read.formats.run_directory.step_log import (
    marks_of,
    read_steps,
    session_steps,
    untimed_steps,
)
from stepwhy.trace import Meta, TraceBuilder


def call(signature, start_ns, end_ns, **more):
    return {
        "kind": "call",
        "signature": signature,
        "start_ns": start_ns,
        "end_ns": end_ns,
        **more,
    }


def marks(*records, gaps=()):
    builder = TraceBuilder()
    steps = read_steps(LogLines([json.dumps(r).encode() for r in records], gaps))
    marks_of(steps.records, builder)
    return builder.finish(Meta("step-log")).marks


def test_a_step_lasts_from_one_call_of_the_heaviest_function_to_the_next():
    log = []
    for start in range(0, 500, 100):
        log += [call(0, start, start + 60), call(1, start + 70, start + 80)]
    found = marks(*log)
    assert found.start_ns.tolist() == [0, 100, 200, 300]
    assert found.dur_ns.tolist() == [100] * 4
    # What a call of a compiled function takes is not what its graph takes: it may only launch it.
    assert found.graph_ns.tolist() == [-1] * 4


def test_the_wait_before_a_call_belongs_to_the_step_that_ends_with_it():
    waits = [7, 1, 2, None, 4]
    log = [call(0, i * 100, i * 100 + 60, input_wait_ns=wait) for i, wait in enumerate(waits)]
    assert marks(*log).input_wait_ns.tolist() == [1, 2, -1, 4]


def test_the_cpu_time_that_a_call_notes_is_that_of_the_step_before():
    records = [call(0, 10 * n, 10 * n + 4, cpu_ns=n) for n in range(1, 4)]
    assert marks(*records, call(0, 40, 44)).cpu_ns.tolist() == [2, 3, -1]


def test_compile_time_is_summed_over_the_calls_of_a_step():
    log = [
        call(0, 0, 60, compile_ns=30),
        call(1, 70, 80, compile_ns=5),
        call(0, 100, 160),
        call(1, 170, 180),
        call(0, 200, 260),
        call(1, 270, 280),
        call(0, 300, 360),
    ]
    assert marks(*log).compile_ns.tolist() == [35, -1, -1]


def test_a_step_that_was_partly_profiled_counts_as_profiled():
    log = [call(0, i * 100, i * 100 + 60, profiled=int(i == 2)) for i in range(5)]
    assert marks(*log).profiled.tolist() == [0, 0, 1, 0]


def test_told_steps_come_before_calls():
    step = {"kind": "step", "profiled": 0, "input_wait_ns": None}
    told = [
        {**step, "start_ns": i * 10, "end_ns": i * 10 + 9, "compile_ns": 4 if i == 0 else None}
        for i in range(3)
    ]
    evaluated = [call(0, 100 + i * 100, 160 + i * 100) for i in range(9)]
    found = marks(*told, *evaluated)
    assert found.dur_ns.tolist() == [9, 9, 9]
    assert found.compile_ns.tolist() == [4, -1, -1]
    assert len(marks(*told[:2], *evaluated).dur_ns) == 8


def test_a_light_step_is_known_for_one():
    told = [
        {"kind": "step", "start_ns": i, "end_ns": i + 1, **({"light": 1} if i == 1 else {})}
        for i in range(3)
    ]
    assert marks(*told).light.tolist() == [0, 1, 0]


def test_what_a_light_call_did_not_note_is_not_known():
    log = [
        call(0, i * 100, i * 100 + 60, **({"light": 1} if i in (2, 3) else {"input_wait_ns": 5}))
        for i in range(6)
    ]
    found = marks(*log)
    assert found.light.tolist() == [0, 0, 1, 1, 0]
    # The wait of a step is noted with the call that ends it.
    assert found.input_wait_ns.tolist() == [5, -1, -1, 5, 5]


def test_a_step_of_which_some_calls_were_light_is_neither():
    log = []
    for i in range(4):
        log += [call(0, i * 100, i * 100 + 60), call(1, i * 100 + 70, i * 100 + 80, light=i % 2)]
    assert marks(*log).light.tolist() == [0, 2, 0]
    runs = [{**line, "kind": "run"} for line in log]
    assert marks(*runs).light.tolist() == [0, 2, 0]


def test_no_step_spans_what_was_dropped():
    log = [call(0, i * 100, i * 100 + 60) for i in (0, 1, 2, 50, 51, 52)]
    assert marks(*log, gaps=(Gap(3, 3, 49),)).start_ns.tolist() == [0, 100, 5000, 5100]


def test_lines_that_cannot_be_read_are_counted():
    assert read_steps(LogLines([b"{", json.dumps(call(0, 0, 1)).encode(), b"\x00"])).torn == 2


def session_run(start_ns, end_ns, **more):
    return {"kind": "run", "start_ns": start_ns, "end_ns": end_ns, **more}


def test_the_cpu_time_of_a_session_step_is_that_of_its_runs_and_of_what_follows_each():
    log = [session_run(0, 60, cpu_ns=5)]
    log += [session_run(at, at + 60, gap_cpu_ns=gap, cpu_ns=5) for at, gap in ((100, 1), (200, 2))]
    log.append(session_run(300, 360, gap_cpu_ns=3, light=1))
    log.append(session_run(400, 460, light=1))
    found = marks(*log)
    assert found.cpu_ns.tolist() == [6, 7, 8, -1]
    assert found.light.tolist() == [0, 0, 0, 1]


def step(start_ns, end_ns, **more):
    return {"kind": "step", "start_ns": start_ns, "end_ns": end_ns, **more}


def explicit(start_ns, kind="explicit"):
    return {"kind": kind, "start_ns": start_ns, "end_ns": start_ns}


def test_explicit_steps_replace_all_others():
    log = [step(0, 50), step(50, 90), explicit(100), step(100, 200), step(200, 300)]
    log += [call(0, at, at + 10) for at in range(0, 300, 10)]
    assert marks(*log).start_ns.tolist() == [100, 200]


def test_earlier_name_of_the_kind_is_read():
    log = [step(0, 50), explicit(100, kind="told"), step(100, 200)]
    assert marks(*log).start_ns.tolist() == [100]


def test_explicit_step_contains_the_runs_that_start_in_it():
    log = [explicit(100), step(100, 200), step(200, 300, light=1), step(300, 400)]
    log += [session_run(at, at + 30, profiled=int(at == 210)) for at in (40, 110, 150, 210, 250)]
    found = marks(*log)
    assert found.start_ns.tolist() == [100, 200, 300]
    assert found.graph_ns.tolist() == [60, 60, -1]
    assert found.profiled.tolist() == [0, 1, 0]
    assert found.light.tolist() == [0, 2, 0]


def test_runs_are_joined_by_explicit_steps():
    log = [explicit(100), step(100, 200), step(200, 300)]
    log += [session_run(at, at + 30) for at in (40, 110, 150, 210)]
    records = read_steps(LogLines([json.dumps(line).encode() for line in log])).records
    joined = [([run.start_ns for run in runs], end) for runs, end in session_steps(records)]
    assert joined == [([110, 150], 200), ([210], 300)]


def untimed(*records, observer="", gaps=()):
    lines = LogLines([json.dumps(r).encode() for r in records], gaps)
    return untimed_steps(read_steps(lines).records, observer)


def test_the_first_step_of_an_optimizer_has_no_known_start():
    log = [step(at, at + 100) for at in range(0, 500, 100)]
    assert untimed(*log, observer="torch-optimizer") == 1
    assert untimed(*log, observer="keras-fit") == 0
    assert untimed(observer="torch-optimizer") == 0


def test_each_loop_of_an_optimizer_has_a_first_step():
    log = [step(at, at + 100) for at in (0, 100, 250, 350)]
    assert untimed(*log, observer="torch-optimizer") == 2
    # Between the second and the third, lines were dropped.
    assert untimed(*log, observer="torch-optimizer", gaps=(Gap(2, 2, 9),)) == 1


def test_explicit_steps_are_all_timed():
    log = [explicit(0), step(0, 100), step(110, 200)]
    assert untimed(*log, observer="torch-optimizer") == 0


def test_the_last_call_begins_a_step_that_has_no_known_end():
    calls = [call(0, at, at + 60) for at in range(0, 500, 100)]
    assert untimed(*calls, observer="jax-jit") == 1
    runs = [session_run(at, at + 60) for at in range(0, 500, 100)]
    assert untimed(*runs, observer="tf1-session") == 1


def test_a_call_that_raised_is_no_step():
    calls = [call(0, at, at + 60) for at in range(0, 500, 100)]
    assert untimed(*calls, call(0, 500, 560, failed=1)) == 0
    assert untimed(*calls, call(1, 500, 560, failed=1)) == 1


def test_calls_beside_the_steps_of_a_fit_are_none():
    log = [step(at, at + 100) for at in range(0, 500, 100)]
    assert untimed(*log, *(call(0, at, at + 60) for at in range(500, 900, 100))) == 0


def test_a_step_of_years_is_left_out():
    long = {"kind": "step", "start_ns": 0, "end_ns": 1 << 62}
    usual = {"kind": "step", "start_ns": 0, "end_ns": 10_000_000}
    assert marks(long, usual).dur_ns.tolist() == [10_000_000]


def test_what_the_process_used_is_read_with_the_step_that_it_belongs_to():
    used = [{"process_cpu_ns": n, "run_delay_ns": 10 * n} for n in range(1, 5)]
    noted = marks(*(step(10 * n, 10 * n + 10, **each) for n, each in enumerate(used)), step(40, 50))
    assert noted.process_cpu_ns.tolist() == [1, 2, 3, 4, -1]
    assert noted.run_delay_ns.tolist() == [10, 20, 30, 40, -1]
    called = marks(*(call(0, 10 * n, 10 * n + 5, **each) for n, each in enumerate(used)))
    assert called.process_cpu_ns.tolist() == [2, 3, 4]
    ran = marks(*(session_run(10 * n, 10 * n + 5, **each) for n, each in enumerate(used)))
    assert (ran.process_cpu_ns.tolist(), ran.run_delay_ns.tolist()) == ([2, 3, 4], [20, 30, 40])


DRAINED = {"kind": "drained", "start_ns": 900, "end_ns": 900}


def test_a_step_notes_whether_the_device_had_caught_up_at_its_end():
    aheads = [None, 0, 1, 1, 0]
    log = [call(0, i * 100, i * 100 + 60, ahead=ahead) for i, ahead in enumerate(aheads)]
    assert marks(*log).drained.tolist() == [1, 0, 0, 1]
    assert marks(*(call(0, i * 100, i * 100 + 60) for i in range(4))).drained.tolist() == [-1] * 3


def test_the_last_step_ends_where_the_program_had_waited_for_the_device():
    log = [call(0, i * 100, i * 100 + 60, cpu_ns=5) for i in range(4)]
    found = marks(*log, DRAINED)
    assert found.dur_ns.tolist() == [100, 100, 100, 600]
    assert (found.drained.tolist(), found.light.tolist()) == ([-1, -1, -1, 1], [0, 0, 0, 2])
    assert untimed(*log, DRAINED, observer="jax-jit") == 0
    assert untimed(*log, observer="jax-jit") == 1


def test_a_wait_after_other_calls_than_usual_ends_no_step():
    log = [call(0, i * 100, i * 100 + 60) for i in range(4)]
    evaluation = [call(1, 400 + i, 401 + i) for i in range(2)]
    assert len(marks(*log, *evaluation, DRAINED).dur_ns) == 3
    assert untimed(*log, *evaluation, DRAINED, observer="jax-jit") == 1
