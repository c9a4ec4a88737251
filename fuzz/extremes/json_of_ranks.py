"""Extreme JSON files of other layouts: Horovod, MegaScan, rocprofv3 and memory timelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.extremes.json_files import filled

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.extremes.json_files import Record


def _list(record: Record) -> Callable[[int], bytes]:
    return lambda size: filled(size, record, "[", "]")


# --- Horovod ---


def _horovod(record: Record) -> Callable[[int], bytes]:
    return lambda size: filled(size, record, "[\n", "\n]", ",\n")


def _row(n: int, name: str) -> str:
    return '{"name":"process_name","ph":"M","pid":%d,"args":{"name":"%s"}}' % (n, name)


def _exchange(n: int, tensor: int, rank: int = 0) -> str:
    return (
        '{"ph":"B","name":"NEGOTIATE_ALLREDUCE","ts":%d,"pid":%d},'
        '{"ph":"X","name":"%d","ts":%d,"pid":%d,"dur":0},{"ph":"E","ts":%d,"pid":%d},'
        '{"ph":"B","name":"ALLREDUCE","ts":%d,"pid":%d},{"ph":"E","ts":%d,"pid":%d,"args":'
        '{"dtype":"float32","shape":"[3]"}}'
        % (10 * n, tensor, rank, 10 * n + 1, tensor, 10 * n + 2, tensor,
           10 * n + 3, tensor, 10 * n + 6, tensor)
    )  # fmt: skip


HOROVOD: dict[str, Callable[[int], bytes]] = {
    "tensors": _horovod(lambda n: f"{_row(n, f'grad/{n}')},\n{_exchange(n, n)}"),
    "exchanges": _horovod(lambda n: (_row(1, "g") + ",\n" if not n else "") + _exchange(n, 1)),
    "ranks": _horovod(lambda n: (_row(1, "g") + ",\n" if not n else "") + _exchange(n, 1, n)),
    "ranks of one exchange": lambda size: filled(
        size,
        lambda n: '{"ph":"X","name":"%d","ts":%d,"pid":1,"dur":0}' % (n, n + 1),
        f'[\n{_row(1, "g")},\n{{"ph":"B","name":"NEGOTIATE_ALLREDUCE","ts":0,"pid":1}},\n',
        f',\n{{"ph":"E","ts":{10**7},"pid":1}},\n{_exchange(10**7, 1)}]',
        ",\n",
    ),
    "activities": _horovod(
        lambda n: (
            (_row(1, "g") + ",\n" + _exchange(0, 1) + "," if not n else "")
            + '{"ph":"B","name":"ACT_%d","ts":%d,"pid":1}' % (n, 10 + n)
        )
    ),
    "cycles": _horovod(
        lambda n: (
            (_row(1, "g") + ",\n" + _exchange(0, 1) + "," if not n else "")
            + '{"ph":"i","name":"CYCLE_START","ts":%d,"pid":1,"s":"g"}' % (10 + n)
        )
    ),
}

# --- MegaScan ---


def _mega(
    ph: str, name: str, at: float, rank: int, number: int, tid: int = 0, more: str = ""
) -> str:
    return '{"name":"%s","ph":"%s","ts":%s,"pid":%d,"tid":%d,"args":{"iteration":%d%s}}' % (
        name,
        ph,
        at,
        rank,
        tid,
        number,
        more,
    )


MEGASCAN: dict[str, Callable[[int], bytes]] = {
    "ranks": _list(
        lambda n: _mega("B", "forward", 5 * n, n, 0) + "," + _mega("E", "forward", 5 * n + 3, n, 0)
    ),
    "iterations": _list(
        lambda n: (
            _mega("B", "forward", 5 * n, n % 2, n // 2)
            + ","
            + _mega("E", "forward", 5 * n + 3, n % 2, n // 2)
        )
    ),
    "names": _list(
        lambda n: (
            _mega("B", f"f{n}", 5 * n, 0, n // 99)
            + ","
            + _mega("E", f"f{n}", 5 * n + 3, 0, n // 99)
        )
    ),
    "whole ranges of ranks": _list(
        lambda n: (
            '{"name":"forward","ph":"X","ts":%d,"dur":3,"pid":%d,"tid":0,"args":{"iteration":%d,'
            '"dp_rk":0,"pp_rk":%d,"tp_rk":0,"dev":%d,"g_rk":%d}}' % (n // 50, n, n % 3, n, n, n)
        )
    ),
    "begins": _list(lambda n: _mega("B", "forward", n, 0, 0)),
    "raw iterations": _list(
        lambda _: (
            '{"name":"iteration","ph":"B","pad_before":5},'
            '{"name":"forward","ph":"B","rel_ts":5},{"microbatch":0,"model_chunk":0,"pp_rank":0,'
            '"name":"forward","ph":"E","rel_ts":50},{"name":"iteration","ph":"E","rel_ts":90,'
            '"duration_wall":100,"duration_cuda":90}'
        )
    ),
    "raw begins": _list(
        lambda n: (
            '{"name":"iteration","ph":"B","pad_before":5}'
            if n == 0
            else '{"name":"f%d","ph":"B","rel_ts":%d}' % (n, n)
        )
    ),
}

# --- rocprofv3 ---

_AGENTS = (
    '{"id":{"handle":%d},"type":2,"name":"gfx950","product_name":"MI350","node_id":%d,'
    '"logical_node_type_id":%d}'
)
_ROCM = (
    '{"rocprofiler-sdk-tool":[{"metadata":{"pid":%d},"agents":[%s],"strings":{"buffer_records":'
    '[{"kind":"NONE","operations":[]},{"kind":"HIP_RUNTIME_API","operations":["hipLaunchKernel"]},'
    '{"kind":"MARKER_CORE_API","operations":["roctxRangePushA"]}],"marker_api":[%s]},'
    '"kernel_symbols":[%s],"buffer_records":{%s}}]}'
)


def _joined(size: int, record: Record) -> str:
    return filled(size, record).decode()


def _rocm_kernel(
    n: int, *, agent: int = 1, queue: int = 1, stream: int = 1, kernel: int = 1
) -> str:
    return (
        '{"kind":11,"operation":1,"thread_id":1,"correlation_id":{"internal":%d},'
        '"start_timestamp":%d,"end_timestamp":%d,"dispatch_info":{"agent_id":{"handle":%d},'
        '"queue_id":{"handle":%d},"kernel_id":%d},"stream_id":{"handle":%d}}'
        % (n, 10 * n + 1, 10 * n + 8, agent, queue, kernel, stream)
    )


def _rocm_api(n: int, kind: int, thread: int = 1) -> str:
    return (
        '{"kind":%d,"operation":0,"thread_id":%d,"correlation_id":{"internal":%d},'
        '"start_timestamp":%d,"end_timestamp":%d}' % (kind, thread, n, 10 * n + 1, 10 * n + 8)
    )


def _rocprof(
    *,
    agents: Record | None = None,
    messages: Record | None = None,
    symbols: Record | None = None,
    kernels: Record | None = None,
    calls: Record | None = None,
    markers: Record | None = None,
) -> Callable[[int], bytes]:
    given = [r for r in (agents, messages, symbols, kernels, calls, markers) if r]

    def build(size: int) -> bytes:
        each = size // len(given)
        lists = {
            "kernel_dispatch": _joined(each if kernels else 1, kernels or _rocm_kernel),
            "hip_api": _joined(each, calls) if calls else "",
            "marker_api": _joined(each, markers) if markers else "",
        }
        return (
            _ROCM
            % (
                7,
                _joined(each, agents) if agents else _AGENTS % (1, 1, 0),
                _joined(each, messages) if messages else "",
                _joined(each, symbols) if symbols else '{"kernel_id":1,"kernel_name":"k"}',
                ",".join(f'"{name}":[{text}]' for name, text in lists.items()),
            )
        ).encode()

    return build


ROCPROF: dict[str, Callable[[int], bytes]] = {
    "agents": _rocprof(
        agents=lambda n: _AGENTS % (n, n, n), kernels=lambda n: _rocm_kernel(n, agent=n)
    ),
    "unknown agents": _rocprof(kernels=lambda n: _rocm_kernel(n, agent=n)),
    "queues": _rocprof(kernels=lambda n: _rocm_kernel(n, queue=n, stream=0)),
    "streams": _rocprof(kernels=lambda n: _rocm_kernel(n, stream=n)),
    "kernels": _rocprof(
        symbols=lambda n: f'{{"kernel_id":{n},"kernel_name":"kernel{n}"}}',
        kernels=lambda n: _rocm_kernel(n, kernel=n),
    ),
    "unknown kernels": _rocprof(kernels=lambda n: _rocm_kernel(n, kernel=n)),
    "threads": _rocprof(calls=lambda n: _rocm_api(n, 1, n)),
    "steps": _rocprof(
        messages=lambda n: f'{{"key":{n},"value":"step {n}"}}', markers=lambda n: _rocm_api(n, 2)
    ),
    "processes": lambda size: filled(
        size,
        lambda n: (
            _ROCM
            % (
                n,
                _AGENTS % (n, n, 0),
                "",
                '{"kernel_id":1,"kernel_name":"k"}',
                f'"kernel_dispatch":[{_rocm_kernel(n, agent=n)}]',
            )
        )[25:-2],
        '{"rocprofiler-sdk-tool":[',
        "]}",
    ),
    "domains": lambda size: filled(
        size,
        lambda n: f'"d{n}_api":[{_rocm_api(n, 1)}]',
        _ROCM[: _ROCM.index("%s}}]}")]
        % (7, _AGENTS % (1, 1, 0), "", '{"kernel_id":1,"kernel_name":"k"}')
        + f'"kernel_dispatch":[{_rocm_kernel(1)}],',
        "}}]}",
    ),
}

# --- PyTorch's memory timelines ---

_AT = 1_700_000_000_000_000_000

MEMORY_TIMELINE: dict[str, Callable[[int], bytes]] = {
    "allocations": _list(lambda n: "[%d,1,%d,%d]" % (_AT + n, 512 + n, n % 9)),
    "churn": _list(lambda n: "[%d,%d,%d,4]" % (_AT + n, (1, 3)[n % 2], (300, -300)[n % 2])),
    "huge sizes": _list(lambda n: "[%d,1,%d,%d]" % (_AT + n, 2**62, n % 9)),
    "sums": lambda size: (
        b"[[%b],[%b]]"
        % (
            b",".join(b"%d" % (_AT // 1000 + n) for n in range(size // 40)),
            b",".join(b"[0,1,2,%d,4,5,6,7,8]" % n for n in range(size // 40)),
        )
    ),
}
