"""All work on devices in traces that others recorded: its class, and its totals.

`python benchmarks/kernel_names.py` lists every name with its class. The folder named by
STEPWHY_TRACES holds the traces, the one beside it, whose name ends in 2, more of them.
"""

import importlib.util
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from stepwhy.base.columns.intervals import Intervals
from stepwhy.read.kernel_names import kernel_row
from stepwhy.trace import Kind
from tests import recorded

ROOT = Path(__file__).resolve().parent.parent
TRACES = os.environ.get("STEPWHY_TRACES")
MORE = Path(f"{TRACES}2")
pytestmark = [
    recorded.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not MORE.is_dir(), reason="STEPWHY_TRACES names no folder of traces"),
]

# Names of all recorded work that is no computation; # stands for a number.
EXPECTED = {
    Kind.COLLECTIVE: """
        AllReduce_all_reduce_#_Add_# Cmpt Exec|REDUCE_ASYNC_V#
        SenRdmaReceive_# [#B] [sync=AllReduce_all_reduce_#_s#_r#_#] DmaI
        SenRdmaReceive_# [#B] [sync=AllReduce_all_reduce_#_s#_r#x#_#] DmaI
        SenRdmaSend_# - Set BcList [sync=AllReduce_all_reduce_#_s#_r#x#_#] DmaO
        SenRdmaSend_# - Xseg to rank # [sync=AllReduce_all_reduce_#_s#_r#x#_#] DmaO
        SenRdmaSend_# Data [sync=AllReduce_all_reduce_#_s#_r#x#_#] DmaO
        SenRdmaSend_# [sync=AllReduce_all_reduce_#_s#_r#_#] DmaO
        all-gather-start|all-reduce-start|all-to-all|all-to-all.#|hcom_allReduce__#_#_#
        ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)
        ncclDevKernel_Generic(ncclDevKernelArgsStorage<#ul>)
        ncclDevKernel_Generic_#(ncclDevKernelArgsStorage<#ul>)
        ncclDevKernel_ReduceScatter_Sum_f#_RING_LL(ncclDevComm*, unsigned long, ncclWork*)
        ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)#>)
        ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)
        ncclKernel_Broadcast_RING_LL_Sum_int#_t(ncclDevComm*, unsigned long, ncclWork*)
        ncclKernel_SendRecv_RING_SIMPLE_Sum_int#_t(ncclDevComm*, unsigned long, ncclWork*)
        reduce-scatter|reduce-scatter.#.double_buffer_clone|reduce-scatter.#.peeled_double_buffer
    """,
    Kind.MEMCPY: """
        CopyDeviceToDevice|MEMCPY|MEMCPYDtoH|MEMCPYHtoD|MEMCPY_ASYNC|MemcopyAsync|Memcpy DtoD
        Memcpy DtoD (Device -> Device)|Memcpy DtoH|Memcpy DtoH (Device -> Host)
        Memcpy DtoH (Device -> Pageable)|Memcpy DtoH (Device -> Pinned)|Memcpy HtoD
        Memcpy HtoD (Host -> Device)|Memcpy HtoD (Pageable -> Device)
        Memcpy HtoD (Pinned -> Device)|MemcpyD#H|MemcpyH#D|__amd_rocclr_copyBuffer
        __amd_rocclr_copyBuffer.kd|dma_request
    """,
    Kind.MEMSET: """
        Conv#DBackpropFilter#_MemSet|Memset|Memset (Device)|Memset (Unknown)|ReduceSum#_MemSet
        __amd_rocclr_fillBufferAligned|aclnnAddmm_MatMulCommon_MemSet|aclnnMm_MatMulCommon_MemSet
        aclnnNLLLoss_NLLLossAiCore_MemSet|aclnnReduceSum_ReduceSumOpAiCore_MemSet
        atomic_memset-#_#|atomic_memset-#_#_#|trans_TransData_#_MemSet
    """,
    Kind.OTHER: "Other",
    Kind.DEVICE_WAIT: """
        AllReduce_all_reduce_#_Add_# Cmpt Prep|add_# Cmpt Prep|Context Sync|Event Sync|Stream Sync
        Stream Wait Event|EVENT_RECORD|EVENT_WAIT|NOTIFY_RECORD|NOTIFY_WAIT|event_record|event_wait
    """,
}
# Families of all distinct names that compute; '' for names that the table does not know.
COMPUTING = {
    "": 1017,
    "attention": 10,
    "convolution": 129,
    "fusion": 193,
    "matrix product": 255,
}
COLLECTIVE = re.compile(
    r"all.?reduce|all.?gather|reduce.?scatter|all.?to.?all|ccl[A-Z_]", re.IGNORECASE
)
INDUCTOR = "triton_"  # names kernels after all operations around them

TOLERANCE = 0.01
ROUNDING_MS = 0.006  # the facts are written with two decimals
# (file, figure) -> why the difference is right.
JUSTIFIED = {
    (f"ascend/ddp_level1_old_rank{rank}/trace_view.json.gz", "busy"): (
        "The fact is the time of MindStudio's row 'Computing': communication and copies are busy, "
        "too."
    )
    for rank in (0, 1)
}


def test_all_recorded_work_has_its_class():
    spec = importlib.util.spec_from_file_location("names", ROOT / "benchmarks/kernel_names.py")
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    work = names.work_below([Path(TRACES), MORE])
    found = {kind: {re.sub(r"\d+", "#", n) for k, n in work if k is kind} for kind in EXPECTED}
    assert found == {kind: set(re.split(r"[\n|] *", e.strip())) for kind, e in EXPECTED.items()}
    computing = [name for kind, name in work if kind is Kind.KERNEL]
    rows = map(kernel_row, computing)
    assert Counter(row.family.value if row else "" for row in rows) == COMPUTING
    own = (re.split(r"[<(]", name)[0] for name in computing)
    assert [n for n in own if COLLECTIVE.search(n) and not n.startswith(INDUCTOR)] == []


def measured():
    if not MORE.is_dir():
        return {}
    known = json.loads((MORE / "FACTS.json").read_text())
    return {name: facts["gpu"] for name, facts in known.items() if facts.get("gpu")}


def facts_of(name):
    return recorded.facts_of(MORE / name)


def assert_agree(name, ours, theirs):
    for figure, ns in ours.items():
        if (name, figure) not in JUSTIFIED and f"{figure}_ms" in theirs:
            expected = theirs[f"{figure}_ms"]
            assert ns / 1e6 == pytest.approx(expected, rel=TOLERANCE, abs=ROUNDING_MS), figure


@pytest.mark.parametrize("name", [n for n in measured() if not n.startswith("jax/")])
def test_totals_of_the_devices(name):
    totals = [t for t in facts_of(name).totals if t.name != "CPU"]
    for ours, theirs in zip(totals, measured()[name].values(), strict=True):
        figures = {
            "busy": ours.busy_ns,
            "comm": ours.communication_ns,
            "exposed_comm": ours.exposed_communication_ns,
            "h2d": ours.h2d_ns,
        }
        assert_agree(name, figures, theirs)


@pytest.mark.parametrize("name", [n for n in measured() if n.startswith("jax/")])
def test_the_last_step_of_all_devices_together(name):
    facts = facts_of(name)
    start, end = int(facts.steps.starts[-1]), int(facts.steps.ends[-1])
    busy, communication, compute = (
        Intervals.union([getattr(a, what) for a in facts.activities]).between(start, end).total_ns
        for what in ("busy", "communication", "compute")
    )
    figures = {"busy": busy, "comm": communication, "noncomm": compute}
    assert_agree(name, figures, measured()[name]["last_step"])


@pytest.mark.parametrize("figure", sorted(JUSTIFIED))
def test_a_justified_difference_is_a_difference(figure, monkeypatch):
    monkeypatch.delitem(JUSTIFIED, figure)
    with pytest.raises(AssertionError, match=figure[1]):
        test_totals_of_the_devices(figure[0])
