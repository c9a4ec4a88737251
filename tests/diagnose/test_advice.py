"""Advice fits the recorded program: each part of it needs evidence in the trace, and its cause.

`NEEDS` says what evidence. It is checked on all recorded traces. Every snippet of every diagnosis
falls under it, so that new advice states what it needs. `CAUSES` says where the time is that a
diagnosis is about: checked on these traces, and by what its fix has shortened in the lab.
"""

import json
import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests import recorded
from tests.advice import CODE

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.parameters import parameter_types
from stepwhy.analyse.steps.counters import series
from stepwhy.analyse.steps.stalls import first_of_keras_epochs, rows_of_kinds
from stepwhy.base.errors import StepwhyError
from stepwhy.result import Fix
from stepwhy.trace import DeviceKind, Kind, Phase
from stepwhy.trace.notation import parse

TRACES = os.environ.get("STEPWHY_TRACES", "")
FOLDERS = [Path(TRACES), Path(TRACES, "../traces2")] if TRACES else []
OTHERS = {"LICENSES", "malformed", "FACTS.json", "CATALOG.md", "README.md"}
FILES = sorted(
    path
    for folder in FOLDERS
    for path in folder.rglob("*")
    if path.is_file() and not OTHERS.intersection(path.relative_to(folder).parts)
)


def framework(*names):
    return lambda facts: facts.trace.meta.framework in names


def names(facts, *kinds):
    """Names of all slices, or of those of some kinds, one per line."""
    rows = facts.slices(*kinds) if kinds else slice(None)
    return "\n".join(facts.trace.string(int(n)) for n in np.unique(facts.trace.slices.name[rows]))


def named(pattern, *kinds):
    return lambda facts: re.search(pattern, names(facts, *kinds)) is not None


def models(facts):
    return "\n".join(facts.trace.string(int(model)) for model in facts.trace.devices.model)


def trains(facts):
    """Whether the trace shows training, False if it shows none; None if it cannot show it."""
    if {Phase.BACKWARD, Phase.OPTIMIZER} & set(facts.phases.tolist()):
        return True
    if named(r"[Bb]ackward|wgrad|dgrad|_bwd|_bw_|multi_tensor_apply|Adam", Kind.KERNEL)(facts):
        return True
    return False if named(r"^aten::|^[A-Z]\w+$", Kind.OP)(facts) else None


def on_gpus(facts):
    return bool(facts.leading) and {a.kind for a in facts.leading} == {DeviceKind.GPU}


def loads_without_randomness(facts):
    lines = (facts.trace.string(int(line)) for line in facts.trace.samples.line)
    functions = (line.rpartition(": ")[2] for line in lines)
    return not any(re.search(r"augment|random|crop|flip|jitter|noise", f) for f in functions)


def has_cores(facts, code):
    """Whether there are as many cores as a snippet starts workers, if their number is known."""
    cores = series(facts.trace, "cores").last
    counts = re.findall(r"\b(?:num_)?workers=(\d+)|Pool\((\d+)", code)
    return cores is None or all(int(a or b) <= cores for a, b in counts)


MATRIX_FP32 = r"sgemm|scudnn|ffma|f32f32_f32f32|(dgrad|wgrad|convolve|winograd)\w*<float|_SB?_"

# Part of an advice -> what the trace has to show for it.
NEEDS = {
    r"\btorch\.|DataLoader\(|autocast|(?<!jax\.)\bnn\.|loss\.backward|\.detach\(": framework(
        "pytorch"
    ),
    r"parametrize\.cached|needs_input_grad|outputs\.argmax": lambda facts: (
        len(facts.trace.step_ops) > 0
    ),
    r"prepared\[number\]": lambda facts: len(facts.trace.samples) > 0,
    r"PYTORCH_|ProfilerActivity": framework("pytorch"),
    r"\btf\.|session\.run|dataset\.(shuffle|map|batch|cache|prefetch|apply|take)": framework(
        "tensorflow"
    ),
    r"\bkeras\.|(predict|train)_on_batch|model\.fit\(": framework("tensorflow"),
    r"layer\(states\)": lambda facts: len(rows_of_kinds(facts.trace, "graph-loop")) > 0,
    r"eval_steps|limit_val_batches|evaluate\(model": lambda facts: (
        len(rows_of_kinds(facts.trace, "evaluation")) > 0
    ),
    r"model\.predict|validation_data": lambda facts: (
        len(rows_of_kinds(facts.trace, "evaluation", "iterator")) > 0
    ),
    r"\bjax\.|\.at\[": framework("jax"),
    r"TORCHINDUCTOR_CACHE_DIR": named(r"(?m)^triton_|CompiledFunction|^Torch-Compiled"),
    r'"cuda"|torch\.cuda|reduce-overhead|CUDA_ALLOC|ActivityCUDA|\.CUDA\b': lambda facts: (
        on_gpus(facts) or facts.trace.meta.idle_accelerator
    ),
    r"pin_memory|non_blocking|/GPU:0|gpu:": on_gpus,
    r"DataLoader\(": lambda facts: (
        named("DataLoader", Kind.INPUT)(facts)
        or facts.trace.meta.format == "run-directory"
        or "INPUT" not in {Kind(k).name for k in facts.trace.slices.kind}
    ),
    r"pin_memory=True": named("DataLoader", Kind.INPUT),
    r"losses\.append|metric\.update": lambda facts: "step-log" in facts.trace.meta.signals,
    r"json\.loads|h5py\.|\.execute\(": lambda facts: len(facts.trace.samples) > 0,
    r"random\.sample": lambda facts: any(
        "Random." in facts.trace.string(int(called)) for called in facts.trace.samples.called
    ),
    r"rng\.choice": lambda facts: (
        facts.trace.matches(facts.trace.samples.names, re.compile("choice|permutation").search)
    ).any(),
    r"register_forward_hook": framework("pytorch"),
    r"os\.fsync": lambda facts: (
        "fsync" in {facts.trace.string(int(kind)) for kind in facts.trace.events.kind}
    ),
    r"nvidia-smi": lambda facts: on_gpus(facts) and not named("Cijk|^hip")(facts),
    r"GradScaler|backward\(\)|fused=True|running_loss|no_sync|minimize|compute_gradients": (
        lambda facts: trains(facts) is not False
    ),
    r"inference_mode|requests": lambda facts: trains(facts) is not True,
    r"set_float32_matmul_precision|allow_tf32": (
        lambda facts: (
            named(MATRIX_FP32, Kind.KERNEL)(facts)
            and re.search("A100|H100|H200|B200|B300|A30|A10|L4|A6000", models(facts))
        )
    ),
    r"bfloat16": lambda facts: (
        models(facts)
        and not re.search(r"V100|T4|TITAN|RTX 20|P100|GP100|GTX|MTIA|ARTEMIS", models(facts))
    ),
    r"torch\.float16|mixed_float16": lambda facts: re.search(
        r"V100|T4|RTX 20|A100|H100|TITAN", models(facts)
    ),
    r"torch\.compile\(|mode=": lambda facts: (
        not named(r"(?m)^triton_|GraphLaunch")(facts)
        and not re.search(r"P100|GTX|K80|M40", models(facts))
    ),
    r"_dynamo\.explain": named(r"(?m)^triton_|CompiledFunction"),
    r"make_graphed_callables": lambda facts: not named("GraphLaunch")(facts),
    r"tf\.(Session|ConfigProto|placeholder|get_variable)": lambda facts: (
        facts.trace.meta.format.startswith("tf") or (facts.trace.marks.graph_ns >= 0).any()
    ),
    r"channels_last|data_format|conv2d": named(r"[Cc]onv|igemm|wgrad|dgrad"),
    r"MIOPEN": named(r"batched_transpose|NCHW2|2NCHW|miopen"),
    r"scaled_dot_product|need_weights": named(r"aten::(b|baddb)mm"),
    r"one_hot": named(r"scatter|OneHot"),
    r"DistributedDataParallel": named("DistributedDataParallel"),
    r"rank::ranks": lambda facts: len(facts.ranks) > 1,
    r"np\.save": loads_without_randomness,
    r"np\.load|mallopt|threading": lambda facts: (
        not on_gpus(facts) or series(facts.trace, "cores").last
    ),
    r"num-layers|--global-batch-size": named(r"send|recv|exchange|forward|backward"),
    r"total += loss\.item|losses\.append": lambda facts: len(facts.trace.counters),
    r"yield from loader|iter\(dataset": lambda facts: len(facts.trace.events),
    r"\bgc\.": lambda facts: len(facts.trace.events),
    r"multiprocessing|writer\.add_scalar": lambda facts: len(facts.trace.samples),
    r"context\.Process": lambda facts: len(rows_of_kinds(facts.trace, "save")),
    r"row\[:len|params, loss = train_step": framework("jax"),
    r"BatchNorm|batch_norm": named(r"[Cc]onv"),
    r"get_device_capability": on_gpus,
    r'jnp\.float32|\("float32"\)|\.float\(\)': lambda facts: (
        parameter_types(facts.trace) or len(facts.trace.operands)
    ),
    r"steps_per_execution|batch_size=64|batch\(64\)": lambda facts: len(facts.trace.events),
    r"images\.permute": named(r"aten::conv[23]d", Kind.OP),
    r"requires_grad_": lambda facts: len(rows_of_kinds(facts.trace, "gradient-walk")),
    r"checkpoint\(block|create_graph": named("Backward"),
    r"checkpoint\(block": named("Backward"),
    r"register_buffer|monitor\.is_on|weight \* penalty": lambda facts: len(facts.trace.step_ops),
    r"hidden\[|table\[index|first \* second": lambda facts: len(facts.trace.step_ops),
    r"embedding_bag|torch\.bmm|to_sparse|conv_transpose|scale\[:|features\[:": lambda facts: (
        facts.trace.step_ops.zeros > 0
    ).any(),
    r"pad_sequence": lambda facts: len(facts.trace.index_inputs),
    r"jnp\.maximum": framework("jax"),
    r"vectorized_map": named(r"NextIteration|While|while"),
    r"embedding_lookup": named("UnsortedSegmentSum"),
    r"np\.where|number_of": lambda facts: (facts.trace.samples.loop >= 0).any(),
    r"groupby": lambda facts: (
        facts.trace.matches(facts.trace.samples.called, lambda name: name.startswith("pandas"))
    ).any(),
    r"steps_per_epoch=batches": lambda facts: first_of_keras_epochs(facts.trace).any(),
    r"unbind": named(r"aten::(?:select|slice)_backward", Kind.OP),
}


@cache
def findings_on(path):
    """The facts of a trace, and what is found in it; None if it is not read."""
    try:
        facts = recorded.facts_of(path)
    except StepwhyError:
        return None
    return facts, [f for f in recorded.findings_of(path) if f.verdict == "found"]


def advice_on(path):
    """The facts of a trace, and the fixes that are advised for it; None if it is not read."""
    read = findings_on(path)
    return None if read is None else (read[0], [(f.id, f.fix) for f in read[1]])


def unfounded(facts, fixes):
    """Advice without its evidence: the diagnosis, and the part of the advice."""
    crowded = [(diagnosis, "cores") for diagnosis, fix in fixes if not has_cores(facts, fix.code)]
    return crowded + [
        (diagnosis, pattern)
        for diagnosis, fix in fixes
        for pattern, has_evidence in NEEDS.items()
        if re.search(pattern, fix.code) and not has_evidence(facts)
    ]


@recorded.TOGETHER
@pytest.mark.traces
@pytest.mark.skipif(not FILES, reason="STEPWHY_TRACES names no folder of traces")
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_advice_fits_the_recorded_program(path):
    found = advice_on(path)
    if found is None:
        pytest.skip("not read")
    assert unfounded(*found) == []


# Diagnosis -> the categories of the breakdown in which its cause takes time.
CAUSES = {
    "input-bound": {"input_wait"},
    "serial-input": {"input_wait", "compute"},  # a graph may draw its input
    "python-preprocessing": {"input_wait", "python", "dispatch", "unexplained"},
    "repeated-preprocessing": {"input_wait", "compute", "dispatch"},
    "queue-starvation": {"input_wait"},
    "storage-wait": {"input_wait"},
    "feed-dict-copy": {"dispatch"},
    "large-fetch": {"dispatch"},
    "python-overhead": {"python", "compute", "unexplained"},  # with the reads of elements
    "host-callback": {"python", "compute", "transfer"},
    "recompilation": {"compile"},
    "graph-growth": {"compile", "python"},
    "checkpoint-stall": {"storage"},
    "logging-stall": {"storage", "python", "unexplained"},
    "host-sync": {"sync"},
    "exposed-transfer": {"transfer"},
    "pageable-copy": {"transfer", "sync"},
    "variable-traffic": {"transfer", "compute"},
    "exposed-communication": {"communication"},
    "unfused-batch-norm": {"compute"},
    "unfused-attention": {"compute"},
    "unfused-pattern": {"compute"},
    "unfavourable-layout": {"compute"},
    "unfavourable-shape": {"compute"},
    "full-precision-matmul": {"compute"},
    "redundant-cast": {"compute"},
    "dominant-op": {"compute"},
    "page-faults": {"compute"},
    "misplaced-op": {"compute", "transfer"},
    "uncolocated-gradients": {"compute", "transfer"},
}
NOISE = 0.005  # of the step; the savings of steps that differ by less cannot be measured
ROUNDED = 1.02  # a cost may be larger than the time that it is part of, as both are rounded


@recorded.TOGETHER
@pytest.mark.traces
@pytest.mark.skipif(not FILES, reason="STEPWHY_TRACES names no folder of traces")
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_advice_is_about_time_that_its_cause_takes(path):
    """A finding costs no more than its categories have, and is worth more than noise."""
    facts, found = findings_on(path) or (None, [])
    costly = [f for f in found if f.cost_ns_per_step and f.id in CAUSES]
    assert [
        f.id
        for f in costly
        if f.cost_ns_per_step > ROUNDED * sum(facts.breakdown[c] for c in CAUSES[f.id])
    ] == []
    gains = [f for f in found if f.saving is not None]
    assert [f.id for f in gains if f.saving.high_ns < NOISE * facts.wall_ns] == []


RESULTS = sorted((Path(__file__).parents[2] / "lab" / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_fix_has_shortened_what_its_diagnosis_is_about(path):
    """By the lab's measurements: the category that shrank most is one of the cause."""
    result = json.loads(path.read_text())
    shorter = min(result["comparison"]["categories"], key=lambda one: one["difference_ns"])
    is_large = -shorter["difference_ns"] > result["measured_ns"] / 2 > 0
    if shorter["sure"] and is_large:
        assert shorter["category"] in CAUSES[result["diagnosis"]]


# What diagnoses of the device's own work find in recorded traces; nothing in all others.
FOUND = {
    "r50_autograd_nw0_nosteps.json.gz": {"full-precision-matmul"},
    "r50_dgxs_nw0_mem_a.json.gz": {"full-precision-matmul"},
    "r50_dgxs_nw4_mem_a.json.gz": {"full-precision-matmul"},
    "r50_v100_nw0_2020_list.json.gz": {"full-precision-matmul"},
    "r50_v100_nw4_2020_list.json.gz": {"full-precision-matmul"},
    "r50_v100_nw4_2021.json.gz": {"full-precision-matmul"},
    "rtx2080ti_resnet_30iters_nosteps.json.gz": {"full-precision-matmul", "pageable-copy"},
    "switch_moe_4exp_b8_seq1024.json.gz": {"full-precision-matmul"},
    "mi300_timesformer.json.gz": {"unfused-attention"},
    "part_a100_bs128_warm.json.gz": {"redundant-cast", "unfused-attention"},
    "part_a100_bs8_warm.json.gz": {"redundant-cast"},
    "a100_recsys_rank0of16.json.gz": {"unfavourable-shape"},
    "h100_qwen05b.json.gz": {"unfused-pattern"},
    "h100_2gpu_seqparallel_before.sqlite": {"unfused-pattern"},
    "h100_2gpu_seqparallel_after.sqlite": {"unfused-pattern"},
    "maxtext_fsdp4_h100.trace.parquet": {"dominant-op"},
}


@recorded.TOGETHER
@pytest.mark.traces
@pytest.mark.skipif(not FILES, reason="STEPWHY_TRACES names no folder of traces")
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_what_is_found_about_the_work_of_the_device(path):
    _, fixes = advice_on(path) or (None, [])
    judged = set().union(*FOUND.values()) | {"debug-settings"}
    assert judged.intersection(name for name, _ in fixes) == FOUND.get(path.name, set())


def test_every_snippet_needs_evidence():
    needs = [key for key, code in CODE.items() if any(re.search(row, code) for row in NEEDS)]
    assert sorted(CODE.keys() - needs) == []


def test_every_row_is_of_some_advice():
    code = "\n".join(CODE.values())
    assert [pattern for pattern in NEEDS if not re.search(pattern, code)] == []


TRAINING = """
unit: 1 ms
framework: {framework}
model: {model}
main  step   |[--------]|
main  op     |{op}        |  f=aten::mm  b=aten::mm {{phase: backward}}
GPU:0 kernel |  kkkkkkkk|  k={kernel}
"""


@pytest.mark.parametrize(
    ("framework_name", "model", "op", "kernel", "code"),
    [
        ("jax", "", "f", "gemm", "DataLoader(data, pin_memory=True)"),
        ("pytorch", "", "f", "gemm", "DataLoader(data, pin_memory=True)"),
        ("pytorch", "", "f", "gemm", "torch.optim.AdamW(parameters, fused=True)"),
        ("pytorch", "", "b", "triton_poi_0", "model = torch.compile(model)"),
        ("pytorch", "A100", "b", "_matmul_mxfp4", 'torch.set_float32_matmul_precision("high")'),
        ("pytorch", "Tesla V100", "b", "sgemm", 'torch.autocast("cuda", torch.bfloat16)'),
        ("pytorch", "", "b", "sgemm", 'torch.autocast("cuda", torch.bfloat16)'),
        ("pytorch", "AMD MI300X", "b", "gemm", "# MIOPEN"),
    ],
)
def test_what_does_not_fit_is_noticed(framework_name, model, op, kernel, code):
    drawing = TRAINING.format(framework=framework_name, model=model, op=op, kernel=kernel)
    assert unfounded(Facts(parse(drawing)), [("x", Fix("", code, "none"))])
