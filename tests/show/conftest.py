"""Results made by hand, one per kind of run that reports have to show."""

from __future__ import annotations

import functools

import pytest
from msgspec import Struct, structs

from stepwhy.result import (
    CATEGORIES,
    Breakdown,
    Device,
    DeviceTotal,
    EventGroup,
    Evidence,
    Finding,
    Fix,
    HealthEntry,
    Input,
    LineBreakdown,
    LineOperation,
    LineTime,
    Op,
    Pipeline,
    PipelineStage,
    Result,
    Run,
    Saving,
    Steps,
    Stretch,
    Traced,
    TraceTotals,
    Verdict,
)

MS = 1_000_000
MIB = 1 << 20


def partition(**milliseconds):
    """Breakdown categories in ns; all others are zero."""
    return {category: round(milliseconds.get(category, 0) * MS) for category in CATEGORIES}


def a_breakdown(phases=None, hottest_line="", **milliseconds):
    categories = partition(**milliseconds)
    return Breakdown(
        wall_ns=sum(categories.values()),
        categories=categories,
        phases=phases or {},
        hottest_line=hottest_line,
    )


def some_steps(median_ms, count=48, warm_up=3, **changes):
    """Steps with a slow start and small, deterministic variations."""
    wobble = [((i * 7919) % 23 - 11) / 100 for i in range(count)]
    durations = [round(median_ms * MS * (1 + w)) for w in wobble]
    durations[:warm_up] = [round(median_ms * MS * 9 / (i + 1)) for i in range(warm_up)]
    steps = Steps(
        count=count,
        source="marker",
        confidence=1.0,
        median_ns=median_ms * MS,
        p10_ns=round(median_ms * MS * 0.92),
        p90_ns=round(median_ms * MS * 1.09),
        steady=count - warm_up,
        warm_up=warm_up,
        device_side=False,
        durations_ns=tuple(durations),
    )
    return structs.replace(steps, **changes)


def a_device(name, wall_ms, *, kind="gpu", model="", h2d=None, idle="dispatch", **milliseconds):
    """A device with some work; the rest of its time has the category `idle`."""
    milliseconds[idle] = wall_ms - sum(milliseconds.values())
    breakdown = partition(**milliseconds)
    busy = sum(breakdown[c] for c in ("compute", "communication", "transfer"))
    return Device(
        name=name,
        kind=kind,
        busy_ns=busy,
        busy_fraction=busy / (wall_ms * MS),
        compute_ns=breakdown["compute"],
        communication_ns=breakdown["communication"],
        exposed_communication_ns=breakdown["communication"],
        transfer_ns=breakdown["transfer"],
        h2d_bytes=h2d,
        d2h_bytes=None,
        model=model,
        breakdown=breakdown,
    )


def totals(*devices, steps=48):
    return TraceTotals(
        span_ns=4_000 * MS,
        devices=tuple(
            DeviceTotal(
                name=d.name,
                busy_ns=d.busy_ns * steps,
                kernel_ns=d.compute_ns * steps,
                communication_ns=d.communication_ns * steps,
                exposed_communication_ns=d.exposed_communication_ns * steps,
                h2d_ns=d.transfer_ns * steps,
                h2d_bytes=d.h2d_bytes,
                d2h_ns=0,
                d2h_bytes=d.d2h_bytes,
                kernels=4120,
            )
            for d in devices
        ),
    )


def not_found():
    """Findings that are clear, or of diagnoses that abstained."""
    return (
        Finding("exposed-transfer", "clear", "Copies hide behind compute"),
        Finding("allocator-pressure", "clear", "The allocator keeps out of the way"),
        Finding(
            "exposed-communication",
            "not_applicable",
            "Communication hides behind compute",
            reason="one device",
        ),
        Finding(
            "misplaced-op",
            "no_data",
            "Ops run on the requested device",
            reason="the trace does not show the requested devices",
        ),
        Finding(
            "soft-placement-fallback",
            "no_data",
            "No op fell back to another device",
            reason="the trace does not show the requested devices",
        ),
    )


def input_bound():
    gpu = a_device(
        "cuda:0",
        62.4,
        model="NVIDIA A100-SXM4-40GB",
        h2d=38 * MIB,
        idle="input_wait",
        compute=11.2,
        transfer=1.3,
    )
    return Result(
        verdict=Verdict("input", 0.95, "The GPU waits for the next batch 74 % of each step."),
        inputs=(
            Input(
                "runs/resnet/rank0.pt.trace.json.gz",
                "kineto-json",
                80_214,
                80_211,
                (
                    HealthEntry(
                        "negative_duration", "warning", 3, "Slices ended before they started.", True
                    ),
                    HealthEntry("merged_rows", "info", 12, "Rows of one thread were merged."),
                ),
            ),
        ),
        run=Run("PyTorch", "2.4.0", ("NVIDIA A100-SXM4-40GB",), 1, None, "python train.py -b 64"),
        steps=some_steps(62, device_side=True, note="Steps end where their device work ends."),
        breakdown=a_breakdown(
            {"forward": 4 * MS, "backward": 6 * MS, "optimizer": round(1.2 * MS)},
            hottest_line="data/augment.py:88",
            compute=11.2,
            transfer=1.3,
            input_wait=46.1,
            dispatch=2.9,
            python=0.6,
            unexplained=0.3,
        ),
        devices=(gpu,),
        trace=totals(gpu),
        ops=(
            Op("aten::convolution_backward", "cuda:0", "backward", 53, 4 * MS, 4 * MS, None),
            Op("aten::cudnn_convolution", "cuda:0", "forward", 53, 3 * MS, 3 * MS, 120 * MIB),
            Op("aten::batch_norm", "cuda:0", "forward", 53, 1_100_000, 1_000_000, None),
        ),
        findings=(
            Finding(
                "input-bound",
                "found",
                "Prepare batches in worker processes",
                cost_ns_per_step=round(46.1 * MS),
                saving=Saving(38 * MS, 45 * MS, "remove input_wait"),
                evidence=(
                    Evidence("time waiting for the next batch", 46_100_000, "ns", "DataLoader"),
                    Evidence("device idle meanwhile", 0.98, "fraction", "cuda:0"),
                    Evidence("steps that wait", 45, "count"),
                    Evidence("hottest line meanwhile", "data/augment.py:88", ""),
                    Evidence("batches loaded per second", 16.1, "batches/s"),
                ),
                fix=Fix(
                    "Let worker processes load and augment batches while the GPU computes.",
                    "DataLoader(dataset, batch_size=64,\n"
                    "           num_workers=8, persistent_workers=True,\n"
                    "           pin_memory=True)",
                    "none",
                ),
            ),
            Finding(
                "launch-bound",
                "found",
                "Launch fewer, larger kernels",
                cost_ns_per_step=round(2.9 * MS),
                saving=Saving(0, 2 * MS, "remove dispatch"),
                evidence=(
                    Evidence("kernels per step", 4120, "count", "cuda:0"),
                    Evidence("median kernel", 2_700, "ns"),
                ),
                fix=Fix(
                    "Compile the model, so that small kernels fuse.",
                    "model = torch.compile(model)",
                    "changes-numerics",
                ),
            ),
            *not_found(),
        ),
        stepwhy="0.1.0",
        notes=("The profiler recorded Python stacks, which slows Python down.",),
    )


def launch_bound():
    gpu = a_device("cuda:0", 9.8, model="NVIDIA H100", compute=2.9)
    return structs.replace(
        input_bound(),
        verdict=Verdict(
            "host", 0.9, "The host launches work too slowly to keep the GPU busy (31 % busy)."
        ),
        breakdown=a_breakdown(compute=2.9, sync=0.4, dispatch=6.1, python=0.31, unexplained=0.09),
        devices=(gpu,),
        trace=totals(gpu),
        steps=some_steps(10, count=400, warm_up=10, profiler_cost=0.51),
        findings=(
            structs.replace(
                input_bound().findings[1], cost_ns_per_step=round(6.1 * MS), saving=None
            ),
        ),
        notes=(),
    )


def communication_bound():
    devices = tuple(
        a_device(
            f"cuda:{rank}",
            181,
            model="NVIDIA H100",
            compute=96 - rank,
            communication=70 + rank,
        )
        for rank in range(8)
    )
    return Result(
        verdict=Verdict(
            "communication", 0.85, "Devices wait for each other's gradients 39 % of each step."
        ),
        inputs=tuple(
            Input(f"ddp/rank{rank}.json", "kineto-json", 41_000 + rank, 41_000 + rank)
            for rank in range(8)
        ),
        run=Run("PyTorch", "2.3.1", ("NVIDIA H100",) * 8, 8, 8, "torchrun --nproc 8 train.py"),
        steps=some_steps(181, count=20, warm_up=1, device_side=True),
        breakdown=a_breakdown(compute=93, communication=71, dispatch=15, unexplained=2),
        devices=devices,
        trace=totals(*devices),
        ops=(Op("nccl:all_reduce", "cuda:0", "communication", 27, 70 * MS, 70 * MS, 410 * MIB),),
        findings=(
            Finding(
                "exposed-communication",
                "found",
                "Overlap the gradient exchange with the backward pass",
                cost_ns_per_step=71 * MS,
                saving=Saving(30 * MS, 55 * MS, "hide communication"),
                evidence=(
                    Evidence("communication not hidden by compute", 71 * MS, "ns"),
                    Evidence("of all communication", 0.93, "fraction"),
                    Evidence("exchanged per step", 410 * MIB, "bytes"),
                ),
                fix=Fix(
                    "Let buckets leave as soon as they fill, and skip the exchange while "
                    "gradients accumulate.",
                    "with model.no_sync():\n    loss.backward()",
                    "changes-memory",
                ),
            ),
        ),
        stepwhy="0.1.0",
    )


def towers():
    ps, gpu = (
        a_device("/job:worker/replica:0/task:0/device:CPU:0", 64, kind="cpu", compute=31),
        a_device("/job:worker/replica:0/task:1/device:CPU:0", 64, kind="cpu", compute=9),
    )
    return Result(
        verdict=Verdict(
            "transfer", 0.8, "Ops pinned to the wrong device cost 14 ms of copies in each step."
        ),
        inputs=(Input("stepwhy-runs/towers", "run-directory", 9_120, 9_120),),
        run=Run("TensorFlow", "2.21.0", ("CPU", "CPU", "CPU"), 1, None, "python train_towers.py"),
        steps=some_steps(64, source="hook", profiler_cost=0.03),
        breakdown=a_breakdown(
            {"forward": 14 * MS, "backward": 17 * MS},
            compute=36.5,
            transfer=14.2,
            sync=1.1,
            dispatch=9.9,
            unexplained=2.3,
        ),
        devices=(ps, gpu),
        trace=totals(ps, gpu),
        ops=(Op("tower_1/MatMul", ps.name, "forward", 1, 9 * MS, 9 * MS, None),),
        findings=(
            Finding(
                "misplaced-op",
                "found",
                "Move the towers' ops off the CPU of the first task",
                cost_ns_per_step=round(14.2 * MS),
                saving=Saving(11 * MS, 17 * MS, "move tower_0/*, tower_1/* to their device"),
                evidence=(
                    Evidence("misplaced ops", 38, "count", "tower_0/dense/MatMul and 37 more"),
                    Evidence("requested device", "/job:worker/task:1/device:CPU:0", ""),
                    Evidence("device it ran on", "/job:worker/replica:0/task:0/device:CPU:0", ""),
                    Evidence("copied per step because of it", 33_554_432, "bytes"),
                    Evidence("placed by", "tf.device('/cpu:0')", "", "train_towers.py:57"),
                ),
                fix=Fix(
                    "Pin only the variables to the CPU; the inner tf.device overrides the "
                    "tower's own.",
                    "def variables_on_cpu(op):\n"
                    "    return '/cpu:0' if op.type == 'VariableV2' else tower\n\n"
                    "with tf.device(variables_on_cpu):\n"
                    "    logits = build_tower(images)",
                    "none",
                ),
            ),
        ),
        stepwhy="0.1.0",
    )


def unknown():
    return Result(
        verdict=Verdict(
            "unknown",
            0.0,
            "Cannot tell what bounds a step: the file holds a slice of a run, and its steps "
            "are not marked.",
        ),
        inputs=(Input("slice.json", "kineto-json", 1_200, 1_200),),
        run=Run("PyTorch", "", ("AMD MI250",), 1, None, ""),
        steps=Steps(1, "whole-trace", 0.0, 900 * MS, 900 * MS, 900 * MS, 1, 0, False),
        breakdown=a_breakdown(compute=18, unexplained=882),
        devices=(a_device("gpu:2", 900, idle="unexplained", compute=18),),
        trace=totals(),
        ops=(),
        findings=not_found(),
        stepwhy="0.1.0",
    )


def truncated():
    broken = Input(
        "timeline.json",
        "tf-timeline-json",
        2_017,
        1_980,
        (
            HealthEntry("truncated", "error", 1, "The file ends inside an event; copy it again."),
            HealthEntry("no_duration", "error", 36, "Events lack a duration.", True),
        ),
    )
    return structs.replace(towers(), inputs=(broken,))


def healthy():
    result = input_bound()
    return structs.replace(
        result,
        verdict=Verdict("compute", 0.9, "The GPU computes 94 % of each step."),
        breakdown=a_breakdown(compute=59, transfer=0.4, dispatch=2.6, unexplained=0.8),
        findings=not_found(),
        notes=(),
    )


def no_devices():
    return structs.replace(
        unknown(),
        verdict=Verdict("unknown", 0.0, "Cannot tell: no device and no op was recorded."),
        run=Run("", "", (), 0, None, ""),
        devices=(),
        breakdown=a_breakdown(),
        steps=Steps(0, "whole-trace", 0.0, 0, 0, 0, 0, 0, False),
        trace=TraceTotals(0, ()),
    )


def levels(kind, name, capacity, values, reserve=0, **shares):
    """A queue with a sample every 50 ms."""
    series = tuple((i * 50 * MS, float(value)) for i, value in enumerate(values))
    shares = dict.fromkeys(("mean_fill", "empty_share", "full_share")) | shares
    return Pipeline(name, kind, capacity, reserve, len(series), series=series, **shares)


def watched():
    """A watched run: its step time changed, a queue starved, a function was retraced."""
    short = [10 * MS + (i * 7919 % 23) * 20_000 for i in range(160)]
    long = [2 * d for d in short[:80]]
    steps = some_steps(
        10,
        count=240,
        source="hook",
        steady=157,
        durations_ns=(40 * MS, 30 * MS, 20 * MS, *short[3:], *long),
        note="Step times are of unprofiled steps; how they divide comes from 6 profiled ones.",
        profiler_cost=0.2,
        profiler_cost_interval=(0.15, 0.26),
        observer_cost_ns=3_420,
        observer_cost_interval_ns=(-2_010, 9_130),
        stretches=(
            Stretch(1, 163, 10 * MS, 1_700 * MS, 3, True),
            Stretch(164, 246, 20 * MS, 1_660 * MS, 3, False),
        ),
        traced=(Traced(20, 3), Traced(200, 3)),
    )
    starved = [(i * 37 % 11) // 8 for i in range(70)]
    return structs.replace(
        input_bound(),
        steps=steps,
        events=(
            EventGroup("compile", "cluster_0", "", 1, 900 * MS, 1, "", 0, 1, 1),
            EventGroup(
                "trace", "train_step", "train.py(41): step", 12, 1_240 * MS, 12,
                "input 0 has shape (31, 224), before (32, 224)", 3, 1, 190,
            ),
            EventGroup("graph", "graph", "train.py(52): <module>", 40, 0, 40, "", 0, 9, 240, 400),
            EventGroup("change", "step", "", 1, 0, 1, "", 0, 190, 190),
        ),
        pipelines=(
            levels("tf1-queue", "batch/fifo_queue", 96, starved,
                   mean_fill=0.004, empty_share=0.92, full_share=0.0),
            levels("tf1-queue", "shuffle_batch/random_shuffle_queue", 1000,
                   [300 + 10 * i for i in range(70)], reserve=200,
                   mean_fill=0.56, empty_share=0.0, full_share=0.11),
            levels("dataloader", "Images", 8, [8, 8, 7, 8] * 18,
                   mean_fill=0.97, empty_share=0.0, full_share=0.75),
            levels("tf.data", "Shuffle[4]", None, [0, 2, 4, 3] * 3, mean_fill=None,
                   empty_share=0.25, full_share=None,
                   stages=(PipelineStage("Prefetch[5]", None, 2, 90, None),
                           PipelineStage("ParallelMapV2[4]", 8, None, 90, 1_200_000))),
            levels("tf.data", "Batch[2]", None, [], stages=(PipelineStage("Batch[2]"),)),
        ),
        notes=("After step 163 the step time rose from 10.0 ms to 20.0 ms.",),
    )  # fmt: skip


def a_line(line, phases=(), operations=(), kind="line", **milliseconds):
    """A row of the breakdown by line."""
    categories = {name: ns for name, ns in partition(**milliseconds).items() if ns}
    phases = {name: round(ms * MS) for name, ms in dict(phases).items()}
    return LineTime(line, kind, sum(categories.values()), categories, phases, operations)


def by_line():
    """A step whose time has lines: a wait, a layer, an exchange, and some without a line."""
    layer = (
        LineOperation("aten::convolution_backward", "backward", 53, 4 * MS),
        LineOperation("aten::cudnn_convolution", "forward", 53, 3 * MS),
        LineOperation("aten::cudnn_convolution", "backward", 1, MS // 2),
    )
    lines = (
        a_line("data/augment.py(88): augment", input_wait=46.1),
        a_line(
            "resnet.py(140): ResNet.forward",
            {"forward": 3.2, "backward": 5},
            layer,
            compute=8.2,
            dispatch=0.8,
        ),
        a_line("", kind="communication", communication=2),
        a_line("train.py(60): main", {"optimizer": 1.2}, compute=1.2),
        a_line("", kind="uncredited", unexplained=0.3, dispatch=0.3),
        *(a_line(f"train.py({n}): main", compute=0.45, transfer=0.4) for n in range(30, 34)),
        a_line("train.py(35): main", python=0.9, storage=0.2),
    )
    result = input_bound()
    whole = sum(line.time_ns for line in lines)
    categories = {name: sum(line.categories.get(name, 0) for line in lines) for name in CATEGORIES}
    breakdown = Breakdown(whole, categories, {}, hottest_line="data/augment.py(88): augment")
    return structs.replace(
        result, breakdown=breakdown, lines=LineBreakdown(whole, lines, "samples")
    )


def one_line():
    """A healthy step that is nearly all in one line."""
    operations = (
        LineOperation("aten::convolution_backward", "backward", 53, 30 * MS),
        LineOperation("aten::cudnn_convolution", "forward", 53, 18 * MS),
    )
    lines = (
        a_line(
            "train.py(88): main",
            {"forward": 20, "backward": 35},
            operations,
            compute=55,
            dispatch=2.6,
        ),
        a_line("", {"unknown": 4}, kind="uncredited", compute=4, unexplained=0.8),
        a_line("train.py(95): main", transfer=0.4),
    )
    return structs.replace(healthy(), lines=LineBreakdown(62_800_000, lines, "clock"))


SAMPLES = {
    sample.__name__: sample
    for sample in (
        input_bound,
        launch_bound,
        communication_bound,
        towers,
        unknown,
        truncated,
        healthy,
        no_devices,
        watched,
        by_line,
        one_line,
    )
}


@pytest.fixture
def sample():
    """Returns the result of a name, e.g. `sample('towers')`."""
    return lambda name: SAMPLES[name]()


@pytest.fixture(params=SAMPLES)
def any_result(request):
    return SAMPLES[request.param]()


@pytest.fixture
def hostile(sample):
    """Returns a result in which every string of `sample('towers')` ends with `poison`."""
    return lambda poison: _poisoned(sample("towers"), poison)


@functools.singledispatch
def _poisoned(value, poison):
    if not isinstance(value, Struct):
        return value
    fixed = {"bound_by", "source", "verdict", "severity", "risk", "unit", "schema"}
    return structs.replace(
        value,
        **{
            f.name: _poisoned(getattr(value, f.name), poison)
            for f in structs.fields(value)
            if f.name not in fixed or not isinstance(getattr(value, f.name), str)
        },
    )


@_poisoned.register
def _(value: str, poison):
    return value + poison


@_poisoned.register
def _(value: tuple, poison):
    return tuple(_poisoned(item, poison) for item in value)
