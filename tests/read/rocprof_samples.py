"""Generator of rocprofv3 results: processes with agents, kernels, calls, copies and markers."""

import json

T0 = 63_857_982_000_000_000
"""Start of the sample's clock, ns: as large as that of a machine up for years."""

CPU, GPU, OTHER_GPU = 37944, 37946, 37947
KINDS = {
    "NONE": [],
    "HIP_RUNTIME_API": [
        "hipLaunchKernel",
        "hipDeviceSynchronize",
        "hipMalloc",
        "hipMemcpyAsync",
        "hipMemcpyHtoDAsync",
    ],
    "HSA_CORE_API": ["hsa_signal_wait_scacquire", "hsa_init"],
    "HSA_AMD_EXT_API": ["hsa_amd_memory_async_copy_on_engine"],
    "RCCL_API": ["ncclAllReduce", "ncclCommInitRank"],
    "MARKER_CORE_API": ["roctxMarkA", "roctxRangePushA", "roctxRangePop", "roctxRangeStartA"],
    "MEMORY_COPY": [
        "MEMORY_COPY_NONE",
        "MEMORY_COPY_HOST_TO_HOST",
        "MEMORY_COPY_HOST_TO_DEVICE",
        "MEMORY_COPY_DEVICE_TO_HOST",
        "MEMORY_COPY_DEVICE_TO_DEVICE",
    ],
    "KERNEL_DISPATCH": ["KERNEL_DISPATCH_NONE", "KERNEL_DISPATCH_COMPLETE"],
}
KERNELS = {
    1: "void at::native::elementwise_kernel<128, 2>(int)",
    2: "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    3: "Cijk_Alik_Bljk_BBS.kd",
    4: "__amd_rocclr_fillBufferAligned.kd",
    5: "__amd_rocclr_copyBuffer.kd",
}


def agent(handle, kind, index, product):
    return {
        "id": {"handle": handle},
        "type": kind,
        "name": "gfx950",
        "product_name": product,
        "node_id": handle - CPU,
        "logical_node_type_id": index,
    }


AGENTS = [
    agent(CPU, 1, 0, "AMD EPYC 9575F"),
    agent(GPU, 2, 0, "AMD Instinct MI350X"),
    agent(OTHER_GPU, 2, 1, "AMD Instinct MI350X"),
]


def record(operation, start, dur, correlation=0, thread=908, **fields):
    """A record by the name of its operation; times in ns after `T0`."""
    kind = next(k for k, names in KINDS.items() if operation in names)
    return {
        "size": 184,
        "kind": list(KINDS).index(kind),
        "operation": KINDS[kind].index(operation),
        "thread_id": thread,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": T0 + start,
        "end_timestamp": T0 + start + dur,
        **fields,
    }


def kernel(number, start, dur, *, correlation=0, queue=16, stream=0, gpu=GPU):
    where = {
        "agent_id": {"handle": gpu},
        "queue_id": {"handle": queue},
        "kernel_id": number,
        "dispatch_id": 1,
    }
    return record(
        "KERNEL_DISPATCH_COMPLETE",
        start,
        dur,
        correlation,
        dispatch_info=where,
        stream_id={"handle": stream},
    )


def copy(way, start, dur, source, target, *, size=4096):
    return record(
        f"MEMORY_COPY_{way}",
        start,
        dur,
        src_agent_id={"handle": source},
        dst_agent_id={"handle": target},
        bytes=size,
    )


def process(buffers, *, pid=908, messages=None, **parts):
    """What one process writes.

    Args:
        buffers: {buffer: records}.
        pid: Its process id.
        messages: {correlation id: text of a marker}.
        parts: Other parts of the entry, or replacements.
    """
    return {
        "metadata": {
            "pid": pid,
            "node": {"hostname": "secret-host"},
            "command": ["/home/someone/train.py", "--token", "hunter2"],
            "config": {"output_path": "/home/someone/out"},
        },
        "agents": AGENTS,
        "strings": {
            "buffer_records": [{"kind": k, "operations": v} for k, v in KINDS.items()],
            "marker_api": [{"key": k, "value": v} for k, v in (messages or {}).items()],
        },
        "kernel_symbols": [
            {"kernel_id": 0, "kernel_name": "", "formatted_kernel_name": "0"},
            *({"kernel_id": k, "formatted_kernel_name": v} for k, v in KERNELS.items()),
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": buffers,
        **parts,
    }


def results(*processes):
    return json.dumps({"rocprofiler-sdk-tool": list(processes)}).encode()
