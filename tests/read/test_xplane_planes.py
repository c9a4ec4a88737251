"""XPlane profiles: planes and lines of every kind, with figures computed by hand."""

import runpy
from pathlib import Path

import pytest
from tests.read.xplane_samples import (
    counters,
    event,
    host,
    line,
    metadata_plane,
    plane,
    program,
    rows,
    shared,
    source_of,
    trace_of,
    xspace,
)

from stepwhy.analyse.facts import Facts
from stepwhy.read.formats.xplane.names import async_hlo_kind, hlo_copy, hlo_kind
from stepwhy.read.formats.xplane.reader import read
from stepwhy.read.formats.xplane.run import rank_of
from stepwhy.read.inputs.source import Source
from stepwhy.trace import NULL, Copy, Kind, Phase, Role


def kinds(trace, *columns):
    """Kinds by name."""
    return {
        row[0]: row[1] if len(row) == 3 else (row[1], *row[3:]) for row in rows(trace, *columns)
    }


# --- TPU ---

TPU = plane(
    "/device:TPU:0",
    line("Steps", event("0", 0, 100), event("1", 100, 100)),
    line("XLA Modules", event("jit_step(7)", 0, 95), event("jit_step(7)", 100, 95)),
    line(
        "XLA Ops",
        event("%while.1 = (s32[]) while(...)", 0, 60, hlo_category="while"),
        event("%fusion.2", 0, 20, hlo_category="convolution fusion", tf_op="jit(f)/jvp(d)/dot:"),
        event("%fusion.3", 20, 10, hlo_category="loop fusion", tf_op="jit(f)/transpose(jvp(d))/m:"),
        event("%fusion.4", 30, 30, hlo_category="megacore fusion"),
        event("%fusion.5", 30, 12, hlo_category="output fusion"),
        event("%copy-start.6", 60, 1),
        event("%send.7", 61, 4, hlo_category="host send"),
        event("%recv-done.8", 65, 5, hlo_category="host recv-done"),
        event("%fusion.9", 70, 8, hlo_category="all-gather fusion"),
        event("%infeed.10", 80, 10, hlo_category="infeed"),
        event("%custom-call.11", 90, 5, hlo_category="sparsecorev0 infeed wait"),
    ),
    line(
        "Async XLA Ops",
        event("copy-start.6", 60, 15),
        event("slice-start.12", 10, 15),
        event("all-reduce-start.13", 78, 20),
        event("async-start.14", 5, 90, hlo_category="async-start"),
        event("fusion.15", 5, 90),
    ),
    line("Framework Name Scope", event("jit(f)", 0, 95)),
    line("Framework Ops", event("jit(f)/jvp(d)/dot:dot", 0, 20)),
    line("Source code", event("train.py:9", 0, 20)),
    line("XLA TraceMe", event("barrier", 3, 1)),
    line("_counters_", event("hbm", 3, 0)),
    device_type_string="TPU v5p",
    has_megacore=1,
)


def test_instructions_of_a_tpu_by_category():
    found = kinds(trace_of(TPU), "copy")
    assert found["fusion.2"] == (Kind.KERNEL, Copy.NONE)
    assert found["fusion.4"] == (Kind.DEVICE_ANNOTATION, Copy.NONE)
    assert found["fusion.5"] == (Kind.KERNEL, Copy.NONE)
    assert found["send.7"] == (Kind.MEMCPY, Copy.D2H)
    assert found["recv-done.8"] == (Kind.MEMCPY, Copy.H2D)
    assert found["fusion.9"] == (Kind.COLLECTIVE, Copy.NONE)
    assert found["infeed.10"] == found["custom-call.11"] == (Kind.DEVICE_WAIT, Copy.NONE)
    assert found["slice-start.12"] == (Kind.MEMCPY, Copy.NONE)
    assert found["all-reduce-start.13"] == (Kind.COLLECTIVE, Copy.NONE)
    assert found["async-start.14"] == found["fusion.15"] == (Kind.DEVICE_ANNOTATION, Copy.NONE)


def test_totals_of_a_tpu():
    (device,) = Facts(trace_of(TPU)).totals
    # fusion.2 (20), fusion.3 (10) and fusion.5 (12); what encloses them repeats them.
    # fusion.9 (8), which gathers, and all-reduce-start.13 (20).
    assert (device.kernels, device.kernel_ns, device.communication_ns) == (5, 70_000, 28_000)
    assert (device.d2h_ns, device.h2d_ns) == (4_000, 5_000)
    # Computation 0 to 42, copies 60 to 75 with the host's inside, exchanges 70 to 98.
    assert device.busy_ns == 42_000 + 38_000


def test_phases_of_a_tpu():
    found = kinds(trace_of(TPU), "phase")
    assert found["fusion.2"][1] is Phase.FORWARD
    assert found["fusion.3"][1] is Phase.BACKWARD


def test_rows_that_repeat_a_tpu_and_rows_that_do_not_are_told_apart():
    trace = trace_of(TPU)
    # Two modules, one name scope, one op, one source line; the steps are taken as such.
    assert counters(trace) == {"derived-row": 7, "other-row": 2}
    assert [r[0] for r in rows(trace) if r[1] is Kind.STEP] == ["step 0", "step 1"]


def test_a_tpu_without_instructions_shows_its_modules():
    bare = plane("/device:TPU:0", line("XLA Modules", event("jit_step(7)", 0, 95)))
    (device,) = Facts(trace_of(bare)).totals
    assert (device.kernels, device.kernel_ns) == (1, 95_000)


def test_cores_of_a_chip_and_sparse_cores_are_devices():
    cores = [
        plane(f"/device:TPU:{i}", line("XLA Ops", event("fusion.1", 0, 5 + i))) for i in (0, 1)
    ]
    sparse = plane(
        "/device:TPU:0 SparseCore 1",
        line("Sparse Core Steps", event("0", 0, 9)),
        line("Sparse Core Modules", event("jit_step(7)", 0, 9)),
        line("Sparse Core Ops", event("gather_offload.2", 1, 7)),
    )
    trace = trace_of(*cores, sparse)
    assert [(t.name, t.kernel_ns) for t in Facts(trace).totals] == [
        ("TPU:0", 5_000),
        ("TPU:1", 6_000),
        ("TPU:0 SparseCore 1", 7_000),
    ]
    assert counters(trace) == {"derived-row": 2}


def test_planes_of_a_chip_beside_its_cores_are_counted():
    chip = plane("#Chip TPU:0", line("DMA", event("x", 0, 1)))
    assert counters(trace_of(TPU, chip))["other-plane"] == 1


@pytest.mark.parametrize(
    ("name", "category", "kind"),
    [
        ("body.1", "call", Kind.DEVICE_ANNOTATION),
        ("async-update.2", "", Kind.DEVICE_ANNOTATION),
        ("fusion.3", "all-reduce-scatter fusion", Kind.COLLECTIVE),
        ("send.4", "send", Kind.COLLECTIVE),
        ("send-done.5", "host send-done", Kind.MEMCPY),
    ],
)
def test_categories(name, category, kind):
    assert hlo_kind(name, category) is kind


def test_what_runs_beside_the_core_is_no_computation():
    assert async_hlo_kind("dynamic-update-slice-start.2") is Kind.MEMCPY
    assert async_hlo_kind("all-gather-start.2") is Kind.COLLECTIVE
    assert hlo_copy("send") is Copy.NONE


# --- statistics that events share ---


def test_statistics_of_the_metadata_hold_for_all_of_its_events():
    tpu = plane("/device:TPU:0", line("XLA Ops", event("fusion.1", 0, 5), event("fusion.1", 9, 5)))
    shared(tpu, "fusion.1", hlo_category="all-reduce fusion")
    assert {r[1] for r in rows(trace_of(tpu))} == {Kind.COLLECTIVE}


def test_what_an_event_says_itself_counts_more():
    tpu = plane(
        "/device:TPU:0",
        line("XLA Ops", event("f", 0, 5), event("f", 9, 5, hlo_category="loop fusion")),
    )
    shared(tpu, "f", hlo_category="all-reduce fusion")
    assert [r[1] for r in rows(trace_of(tpu))] == [Kind.COLLECTIVE, Kind.KERNEL]


# --- GPU ---


def test_a_fill_has_its_size():
    gpu = plane(
        "/device:GPU:0",
        line(
            "Stream #7(Memset)", event("Memset", 0, 1, Memset_details="kind:device size:64 async:1")
        ),
    )
    assert rows(trace_of(gpu), "bytes") == [("Memset", Kind.MEMSET, Role.STREAM, 64)]


def test_rows_derived_from_each_stream_repeat_it():
    gpu = plane(
        "/device:GPU:0",
        line("Stream #7(Compute)", event("gemm", 0, 5)),
        line("Stream #8(Compute)", event("gemm", 2, 5)),
        line("XLA Ops - from #7", event("fusion.1", 0, 5)),
        line("XLA Modules - from #7", event("jit_step", 0, 5)),
        line("Launch Stats", event("Launch Stats for 0", 0, 5)),
    )
    trace = trace_of(gpu)
    assert counters(trace) == {"derived-row": 3}
    (device,) = Facts(trace).totals
    assert (device.busy_ns, device.kernel_ns) == (7_000, 10_000)


def test_a_plane_in_two_parts_is_one_device():
    parts = [
        plane("/device:GPU:0", line("Stream #7(Compute)", event("gemm", 0, 5), number=7)),
        plane("/device:GPU:0", line("XLA Ops", event("fusion.1", 0, 5), number=1)),
        plane("/device:GPU:0", line("Stream #7(Compute)", event("gemm", 6, 5), number=7)),
    ]
    trace = trace_of(*parts)
    assert counters(trace) == {"derived-row": 1}
    (device,) = Facts(trace).totals
    assert (device.kernels, device.kernel_ns) == (2, 10_000)


PROGRAM = program(
    7,
    **{
        "loop_fusion.1": "jit(step)/jit(main)/transpose(jvp(dense))/dot_general",
        "loop_fusion.2": "jit(step)/jit(main)/jvp(dense)/tanh",
        "loop_fusion.3": "model/gradient_tape/dense/MatMul",
        "loop_fusion.4": "jit(step)/sub",
    },
)


def with_programs(*planes):
    return read(source_of(xspace(*planes) + metadata_plane(PROGRAM)))


def test_kernels_are_looked_up_in_the_programs():
    kernels = [event(f"k{i}", 9 * i, 5, hlo_op=f"loop_fusion.{i}", program_id=7) for i in range(6)]
    other = event("k9", 90, 5, hlo_op="loop_fusion.1", program_id=8)
    named = event("k10", 99, 5, hlo_op="loop_fusion.1", program_id=7, name="jit(f)/jvp(g)/add")
    gpu = plane("/device:GPU:0", line("Stream #7(Compute)", *kernels, other, named))
    assert [row[3] for row in rows(with_programs(gpu), "phase")] == [
        Phase.UNKNOWN,
        Phase.BACKWARD,
        Phase.FORWARD,
        Phase.BACKWARD,
        Phase.UNKNOWN,
        Phase.UNKNOWN,
        Phase.UNKNOWN,
        Phase.FORWARD,
    ]


def test_the_id_of_a_program_stands_in_its_name():
    backward, forward = "jit(f)/transpose(jvp(g))/mul", "jit(f)/jvp(g)/mul"
    programs = [program(6, "jit_g(2)", dot=forward), program(2, "jit_f(6)", dot=backward)]
    ran = event("dot", 0, 5, hlo_op="dot", program_id=6)
    cpu = xspace(host(line("tf_XLAEigen/9", ran)))
    trace = read(source_of(cpu + metadata_plane(*programs)))
    assert rows(trace, "phase") == [("dot", Kind.KERNEL, Role.EXECUTOR, Phase.BACKWARD)]


def test_programs_that_cannot_be_read_say_nothing():
    gpu = plane(
        "/device:GPU:0",
        line("Stream #7(Compute)", event("k", 0, 5, hlo_op="loop_fusion.1", program_id=7)),
    )
    damaged = PROGRAM.replace(b"loop_fusion.1", b"\xff" * 13)
    trace = read(source_of(xspace(gpu) + metadata_plane(damaged)))
    assert rows(trace, "phase") == [("k", Kind.KERNEL, Role.STREAM, Phase.UNKNOWN)]


# --- host ---


def test_lines_of_one_id_are_one_thread():
    parts = [
        line("python", event("$pjit.py:250 cache_miss", 0, 50), number=5),
        line("python", event("my range", 10, 5), number=5),
        line("python", event("my range", 10, 5), number=6),
    ]
    trace = trace_of(host(*parts))
    assert len(trace.tracks) == 2
    # Below the framework's own code a range is the framework's.
    assert [r[1] for r in rows(trace)] == [Kind.FRAMEWORK, Kind.FRAMEWORK, Kind.ANNOTATION]


def test_frames_on_a_plane_of_their_own_enclose_what_their_thread_does():
    frames = plane(
        "/host:python-tracer", line("7", event("$pjit.py:250 cache_miss", 0, 50), number=7)
    )
    trace = trace_of(frames, host(line("main", event("my range", 10, 5), number=7)))
    assert [r[1] for r in rows(trace)] == [Kind.FRAMEWORK, Kind.FRAMEWORK]
    assert trace.string(int(trace.tracks.name[0])) == "main"


def test_lines_without_an_id_go_by_their_names():
    parts = [line(name, event("my range", 0, 5), number=0) for name in ("a", "b")]
    assert len(trace_of(host(*parts)).tracks) == 2


def test_another_process_feeds_the_training():
    worker = plane(
        "/host:CPU [4711]",
        line(
            "python", event("$load.py:3 decode", 0, 50), event("step", 0, 60, step_num=1), number=5
        ),
    )
    trace = trace_of(worker, host(line("python", event("train", 0, 99, step_num=1), number=5)))
    assert rows(trace, "source") == [
        ("train", Kind.STEP, Role.HOST_THREAD, ""),
        ("step", Kind.FRAMEWORK, Role.WORKER, ""),
        ("load.py(3): decode", Kind.PYTHON, Role.WORKER, "load.py(3): decode"),
    ]
    assert sorted(trace.tracks.process.tolist()) == [NULL, 4711]


@pytest.mark.parametrize("number", [0xDEADBEEF + 50, 0xDEADBEEF + 50 - 2**32])
def test_lines_that_tools_derive_from_threads_repeat_them(number):
    derived = line("python-XLA Ops", event("dot.3", 0, 5, hlo_op="dot.3"), number=number)
    ran = line("tf_XLAEigen/9", event("dot.3", 0, 5, hlo_op="dot.3"))
    trace = trace_of(host(derived, ran))
    assert counters(trace) == {"derived-row": 1}
    assert [(t.name, t.kernel_ns) for t in Facts(trace).totals] == [("CPU", 5_000)]


def test_a_function_compiled_for_no_device_in_particular_runs_on_the_cpu():
    ran = event("dot.1", 0, 5, hlo_op="dot.1", device_ordinal=-1)
    (device,) = Facts(trace_of(host(line("python", ran)))).totals
    assert (device.name, device.kernel_ns) == ("CPU", 5_000)


def test_sums_over_many_events_are_counted():
    message = host(line("python", event("a", 0, 1), event("b", 2, 1)))
    message.lines[0].events[1].num_occurrences = 9
    assert counters(trace_of(message)) == {"event-aggregated": 1}


def test_a_step_carries_what_the_root_of_a_group_carries():
    root = event("FunctionRun", 5, 50, _r=1, id=3, group_id=0)
    step = event("train", 0, 60, _r=1, step_num=4, group_id=0)
    assert [r[1] for r in rows(trace_of(host(line("python", step, root))))] == [
        Kind.STEP,
        Kind.FRAMEWORK,
    ]


def test_times_are_rounded_down_to_the_nanosecond():
    # From 1.999 to 4.001 ns after the start of a line at 7 ns.
    message = host(("python", 5, 7, [("a", 1_999, 2_002, {})]))
    slices = trace_of(message).slices
    assert (slices.start_ns.tolist(), slices.dur_ns.tolist()) == ([8], [3])


def test_lines_begin_at_their_own_times():
    message = host(
        ("a", 1, 1_000, [("x", 2_000_000, 1_000, {})]), ("b", 2, 3_000, [("y", 0, 1_000, {})])
    )
    assert [(r[0], r[3]) for r in rows(trace_of(message), "start_ns")] == [
        ("x", 3_000),
        ("y", 3_000),
    ]


# --- the profiles of the benchmark ---


def test_generated_profiles_are_of_a_loop_on_a_gpu(tmp_path):
    path = Path(__file__).parents[2] / "benchmarks/generated_xplane.py"
    generator = runpy.run_path(str(path))
    generator["write_xplane"](tmp_path / "a", megabytes=0, layers=2)
    generator["write_xplane"](tmp_path / "b", megabytes=0, layers=2)
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes()
    facts = Facts(read(source_of(data)))
    # Two steps: a marker, a batch, a wait; per layer three frames, a run, three calls and kernels.
    assert facts.trace.health.events_read == 2 * (3 + 2 * (3 + 1 + 3 + 3))
    assert (facts.steps.source, len(facts.steps.starts)) == ("marker", 2)
    (gpu,) = facts.totals
    assert (gpu.name, gpu.kernels) == ("GPU:0", 12)
    assert len(facts.launches.device_rows) == 12
    assert facts.trace.meta.framework == "jax"


# --- several hosts ---


def test_files_of_one_run_are_its_ranks(tmp_path):
    run = tmp_path / "logs" / "plugins" / "profile" / "2024_05_01_12_00_00"
    run.mkdir(parents=True)
    data = xspace(host(line("python", event("train", 0, 9, step_num=1))))
    for name in ("b", "a", "c"):
        (run / f"{name}.xplane.pb").write_bytes(data)
    (run / "a.trace.json.gz").write_bytes(b"")
    ranks = [read(Source(data, n, run / f"{n}.xplane.pb")).meta.rank for n in "abc"]
    assert ranks == [0, 1, 2]


def test_a_file_by_itself_has_no_rank(tmp_path):
    run = tmp_path / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    (run / "a.xplane.pb").write_bytes(b"x")
    assert rank_of(run / "a.xplane.pb") == NULL
    (tmp_path / "b.xplane.pb").write_bytes(b"x")
    (tmp_path / "c.xplane.pb").write_bytes(b"x")
    assert rank_of(tmp_path / "b.xplane.pb") == NULL
    assert rank_of(None) == NULL
