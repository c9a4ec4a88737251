"""Extreme JSON files of a Chrome trace's layout: Kineto, TensorFlow timelines and others."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Record = Callable[[int], str]

_STEP = (
    '{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%d,"dur":9}'
)
_OP = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":%d,"ts":%d,"dur":%d}'
_KERNEL = (
    '{"ph":"X","cat":"kernel","name":"%s","pid":%d,"tid":%d,"ts":%d,"dur":%d,'
    '"args":{"device":%d,"stream":%d,"correlation":%d}}'
)
_CALL = (
    '{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%d,"dur":1,'
    '"args":{"correlation":%d}}'
)
_X = '{"ph":"X","name":"%s","pid":%d,"tid":%d,"ts":%d,"dur":%d}'


def filled(size: int, record: Record, head: str = "", tail: str = "", between: str = ",") -> bytes:
    """Records between a head and a tail, as many as fit into so many bytes; at least one."""
    return f"{head}{between.join(_until(size, record))}{tail}".encode()


def _until(size: int, record: Record) -> Iterator[str]:
    for number in count():
        text = record(number)
        yield text
        size -= len(text) + 1
        if size <= 0:
            return


def _object(record: Record) -> Callable[[int], bytes]:
    return lambda size: filled(size, record, '{"schemaVersion":1,"traceEvents":[', "]}")


def _list(record: Record) -> Callable[[int], bytes]:
    return lambda size: filled(size, record, "[", "]")


def _nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


# --- Kineto ---


def _kineto_kernel(
    n: int, *, name: str = "k", device: int = 0, stream: int = 7, at: int = -1, dur: int = 1
) -> str:
    at = 2 * n if at < 0 else at
    return _KERNEL % (name, device, stream, at, dur, device, stream, n)


def _launched(n: int) -> str:
    return f"{_CALL % (3 * n, n)},{_kineto_kernel(n, at=3 * n + 1)}"


def _stepped(n: int) -> str:
    return f"{_STEP % (n, 10 * n)},{_kineto_kernel(n, at=10 * n + 1)}"


def _allocation(n: int) -> str:
    return (
        '{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":%d,"args":{"Device Type":1,'
        '"Device Id":%d,"Addr":%d,"Bytes":%d,"Total Allocated":%d,"Total Reserved":9}}'
        % (n, n % 1000, n // 2, -512 if n % 2 else 512, 512 * (n + 1 & 1))
    )


def _python(n: int) -> str:
    return (
        '{"ph":"X","cat":"python_function","name":"f%d.py(%d): f","pid":1,"tid":1,"ts":%d,"dur":%d}'
        % (n, n, n, 10**7 - 2 * n)
    )


def _nested_in(category: str, name: str) -> Record:
    """Slices that each lie in the one before; the name may hold the number of the slice."""
    return lambda n: (
        '{"ph":"X","cat":"%s","name":"%s","pid":1,"tid":1,"ts":%d,"dur":%d}'
        % (category, name.format(n), n, 10**7 - 2 * n)
    )


KINETO: dict[str, Callable[[int], bytes]] = {
    "devices": _object(lambda n: _kineto_kernel(n, device=n)),
    "devices with steps": _object(
        lambda n: f"{_STEP % (n, 10 * n)}," + _kineto_kernel(n, device=n, at=10 * n + 1)
    ),
    "streams": _object(lambda n: _kineto_kernel(n, stream=n)),
    "threads": _object(lambda n: _OP % ("aten::mm", n, 2 * n, 1)),
    "threads with Python": _object(
        lambda n: (
            _OP % ("aten::mm", n, 0, 10**6) + "," + _python(n).replace('"tid":1', f'"tid":{n}')
        )
    ),
    "processes": _object(
        lambda n: (_OP % ("aten::mm", n, 2 * n, 1)).replace('"pid":1', f'"pid":{n}')
    ),
    "steps": _object(_stepped),
    "empty steps": _object(lambda n: _STEP % (n, 10 * n)),
    "steps at one time": _object(
        lambda n: _STEP % (n, 5) + "," + _kineto_kernel(n, at=5, dur=10**6)
    ),
    "names": _object(lambda n: _kineto_kernel(n, name=f"kernel_{n}_{n * 7919}")),
    "names of operations": _object(lambda n: _OP % (f"aten::op{n}", 1, 2 * n, 1)),
    "long names": _object(lambda n: _kineto_kernel(n, name=f"void f{n}<" + "at::native::" * 20000)),
    "nested operations": _object(lambda n: _OP % ("aten::mm", 1, n, 10**7 - 2 * n)),
    "nested Python": _object(_python),
    "nested names of operations": _object(_nested_in("cpu_op", "aten::op{0}")),
    "nested ranges": _object(
        lambda n: (
            _nested_in("user_annotation", "r{0}")(n)
            + ","
            + (_nested_in("cpu_op", "aten::op{0}")(n)).replace('"dur":', '"dur":1,"x":')
        )
    ),
    "nested modules": _object(
        lambda n: (
            _nested_in("python_function", "nn.Module: Layer_{0}")(n)
            + ","
            + (_nested_in("cpu_op", "aten::mm")(n)).replace('"dur":', '"dur":1,"x":')
        )
    ),
    "names of ranges": _object(
        lambda n: (
            (_OP % (f"range{n}", 1, 10 * n, 9)).replace("cpu_op", "user_annotation")
            + ","
            + _OP % ("aten::mm", 1, 10 * n + 1, 1)
        )
    ),
    "slashes": _object(lambda n: _OP % ("a/" * 100_000 + str(n), 1, n, 1)),
    "overlapping operations": _object(lambda n: _OP % ("aten::mm", 1, n, 10**7)),
    "overlapping kernels": _object(lambda n: _kineto_kernel(n, stream=n % 4000, at=n, dur=10**6)),
    "kernels on one stream overlap": _object(lambda n: _kineto_kernel(n, at=n, dur=10**6)),
    "launches": _object(_launched),
    "one correlation": _object(
        lambda n: f"{_CALL % (3 * n, 5)},{_KERNEL % ('k', 0, 7, 3 * n, 1, 0, 7, 5)}"
    ),
    "arrows": _object(
        lambda n: (
            '{"ph":"%s","id":%d,"pid":1,"tid":1,"ts":%d,"cat":"ac2g","name":"ac2g"}'
            % ("sf"[n % 2], n // 2, n)
        )
    ),
    "allocations": _object(lambda n: f"{_allocation(n)},{_OP % ('aten::mm', 1, n, 1)}"),
    "memory of devices": _object(
        lambda n: f"{_allocation(n)},{_OP % ('aten::mm', 1, n, 1)}".replace(
            f'"Device Id":{n % 1000}', f'"Device Id":{n}'
        )
    ),
    "call stacks": _object(
        lambda n: (
            (_OP % ("aten::mm", 1, 2 * n, 1))[:-1] + f',"args":{{"Call stack":"a.py({n}): f"}}}}'
        )
    ),
    "processes with names": _object(
        lambda n: (_OP % ("aten::mm", n, 2 * n, 1)).replace('"pid":1', f'"pid":"rank {n}"')
    ),
    "huge times": _object(
        lambda n: _OP % ("aten::mm", 1, (n % 2 * 2 - 1) * 2**52 * (n % 997), 2**40)
    ),
    "fractional times": _object(
        lambda n: (_OP % ("aten::mm", 1, n, 5)).replace('"dur":5', '"dur":5e-3')
    ),
    "collectives": _object(
        lambda n: (_kineto_kernel(n, name="ncclDevKernel_AllReduce", device=n % 8)).replace(
            '"args":{', '"args":{"Process Group Name":"%d","In msg nelems":%d,' % (n, n)
        )
    ),
    "deep arguments": _object(
        lambda n: (_OP % ("aten::mm", 1, 2 * n, 1))[:-1] + f',"args":{{"x":{_nested(500)}}}}}'
    ),
    "many arguments": _object(
        lambda n: (
            (_OP % ("aten::mm", 1, 2 * n, 1))[:-1]
            + ',"args":{%s}}' % ",".join(f'"k{n}_{i}":{i}' for i in range(3000))
        )
    ),
    "shapes": _object(
        lambda n: (
            (_OP % ("aten::mm", 1, 2 * n, 1))[:-1]
            + ',"args":{"Input Dims":[[%d,%d]],"Call stack":"a.py(%d): f;b.py(%d): g"}}'
            % (n, n, n, n)
        )
    ),
    "device properties": lambda size: filled(
        size // 2,
        lambda n: f'{{"id":{n},"name":"GPU {n}"}}',
        '{"schemaVersion":1,"deviceProperties":[',
        f'],"traceEvents":[{_kineto_kernel(1)},{_OP % ("aten::mm", 1, 0, 1)}]}}',
    ),
    "header keys": lambda size: filled(
        size // 2,
        lambda n: f'"k{n}":{_nested(20)}',
        "{",
        f',"traceEvents":[{_kineto_kernel(1)},{_OP % ("aten::mm", 1, 0, 1)}]}}',
    ),
    "broken records": _object(
        lambda n: _OP % ("aten::mm", 1, 2 * n, 1) + (',{"ph":"X","cat":' if n % 400 == 399 else "")
    ),
    "not a number": _object(lambda n: _OP % ("aten::mm", 1, 2 * n, 1) + ',{"ph":"X","ts":NaN}'),
    "lists of events": lambda size: filled(
        size,
        lambda n: f'"traceEvents":[{_OP % ("aten::mm", 1, n, 1)}]',
        "{",
        "}",
    ),
    "periodic kernels": _object(lambda n: _kineto_kernel(n, name=f"k{n % 37}")),
    "samples": _object(
        lambda n: (
            '{"ph":"C","cat":"cpu_op","name":"c%d","pid":1,"tid":1,"ts":%d,"args":{"v":%d}}'
            % (n, n, n)
        )
    ),
}

# --- Other Chrome traces ---


def _process(n: int, name: str) -> str:
    return '{"ph":"M","name":"process_name","pid":%d,"args":{"name":"%s"}}' % (n, name)


CHROME: dict[str, Callable[[int], bytes]] = {
    "devices": _list(lambda n: _process(n, f"GPU {n}") + "," + _X % ("k", n, 1, 2 * n, 1)),
    "threads": _list(lambda n: _X % ("f", 1, n, 2 * n, 1)),
    "processes": _list(lambda n: _X % ("f", n, 1, 2 * n, 1)),
    "text threads": _list(
        lambda n: (_X % ("f", 1, n, n, 1)).replace(f'"tid":{n},', f'"tid":"thread {n}",')
    ),
    "steps": _list(lambda n: _X % (f"step {n}", 1, 1, 10 * n, 9)),
    "names": _list(lambda n: _X % (f"name {n * 7919}", 1, 1, 2 * n, 1)),
    "names without numbers": _list(
        lambda n: _X % ("".join(chr(97 + (n >> 4 * i) % 16) for i in range(6)), 1, 1, 2 * n, 1)
    ),
    "long names": _list(lambda n: _X % (f"{n}" + "x" * 200_000, 1, 1, 2 * n, 1)),
    "nested": _list(lambda n: _X % ("f", 1, 1, n, 10**7 - 2 * n)),
    "overlapping": _list(lambda n: _X % ("f", 1, 1, n, 10**7)),
    "begins": _list(lambda n: '{"ph":"B","name":"f%d","pid":1,"tid":1,"ts":%d}' % (n, n)),
    "pairs": _list(
        lambda n: '{"ph":"%s","name":"f","pid":1,"tid":%d,"ts":%d}' % ("BE"[n % 2], n // 2 % 997, n)
    ),
    "ends": _list(
        lambda n: '{"ph":"%s","name":"f","pid":1,"tid":1,"ts":%d}' % ("B" if n < 2 else "E", n)
    ),
    "async ranges": _list(
        lambda n: (
            '{"ph":"b","cat":"a","id":%d,"name":"r","pid":1,"tid":1,"ts":%d},' % (n, n)
            + '{"ph":"e","cat":"a","id":%d,"name":"r","pid":1,"tid":1,"ts":%d}' % (n, 10**7 - n)
        )
    ),
    "async categories": _list(
        lambda n: (
            '{"ph":"b","cat":"c%d","id":%d,"name":"r","pid":1,"tid":1,"ts":%d},' % (n, n, n)
            + '{"ph":"e","cat":"c%d","id":%d,"name":"r","pid":1,"tid":1,"ts":%d}' % (n, n, n + 1)
        )
    ),
    "counters": _list(
        lambda n: (
            _X % ("f", 1, 1, n, 1)
            + ',{"ph":"C","name":"c%d","pid":1,"ts":%d,"args":{"v%d":%d}}' % (n, n, n, n)
        )
    ),
    "series of one counter": lambda size: filled(
        size,
        lambda n: '"v%d":%d' % (n, n),
        '[{"ph":"X","name":"f","pid":1,"tid":1,"ts":1,"dur":1},'
        '{"ph":"C","name":"c","pid":1,"ts":5,"args":{',
        "}}]",
    ),
    "names of threads": _list(
        lambda n: (
            '{"ph":"M","name":"thread_name","pid":1,"tid":%d,"args":{"name":"Stream #%d"}},'
            % (n, n)
            + _X % ("k", 1, n, n, 1)
        )
    ),
    "samples": _list(
        lambda n: (
            '{"ph":"P","name":"s%d","pid":1,"tid":1,"ts":%d},' % (n, n) + _X % ("f", 1, 1, n, 1)
        )
    ),
    "huge times": _list(lambda n: _X % ("f", 1, 1, (n % 2 * 2 - 1) * 2**52 * (n % 997), 2**40)),
    "text times": _list(lambda n: (_X % ("f", 1, 1, n, 1)).replace(f'"ts":{n}', f'"ts":"{n}.5"')),
    "exponents": _list(lambda n: (_X % ("f", 1, 1, 7, 1)).replace('"ts":7', f'"ts":{n}e1')),
    "commas": _list(
        lambda n: _X % ("f", 1, 1, n, 1) if n == 0 else "," * 1000 + _X % ("f", 1, 1, n, 1)
    ),
    "brackets in names": _list(lambda n: _X % ('},{\\"ph\\":[' * 100, 1, 1, n, 1)),
    "loop": _list(
        lambda n: _X % (("train_step", "load_batch", "forward", "backward")[n % 4], 1, 1, 4 * n, 3)
    ),
}

TF_TIMELINE: dict[str, Callable[[int], bytes]] = {}


def _tf(record: Record) -> Callable[[int], bytes]:
    head = '{"traceEvents":[' + _process(0, "/job:localhost/replica:0/task:0/device:GPU:0 Compute")
    return lambda size: filled(size, record, head + ",", "]}")


def _tf_op(pid: int, lane: int, node: str, op: str, at: int, dur: int) -> str:
    return (
        '{"ph":"X","cat":"Op","name":"%s","pid":%d,"tid":%d,"ts":%d,"dur":%d,'
        '"args":{"name":"%s","op":"%s","input0":"x"}}' % (op, pid, lane, at, dur, node, op)
    )


TF_TIMELINE |= {
    "devices": _tf(
        lambda n: (
            _process(n + 1, f"/job:w/replica:0/task:{n}/device:GPU:0 Compute")
            + ","
            + _tf_op(n + 1, 0, "x", "MatMul", 2 * n, 1)
        )
    ),
    "streams": _tf(
        lambda n: (
            _process(n + 1, f"/gpu:0/stream:{n} Compute")
            + ","
            + _tf_op(n + 1, 0, "x", "MatMul", 2 * n, 1)
        )
    ),
    "lanes": _tf(lambda n: _tf_op(0, n, "x", "MatMul", 2 * n, 1)),
    "nodes": _tf(lambda n: _tf_op(0, 0, f"scope{n}/op{n}", f"Op{n}", 2 * n, 1)),
    "overlapping": _tf(lambda n: _tf_op(0, n % 3000, "x", "MatMul", n, 10**6)),
    "nested scopes": _tf(lambda n: _tf_op(0, 0, "/".join("ab" * 2000) + str(n), "Add", 2 * n, 1)),
    "copies": _tf(lambda n: _tf_op(0, 0, f"edge_{n}_x", "MEMCPYHtoD", 2 * n, 1)),
    "tensors": _tf(
        lambda n: (
            '{"ph":"N","pid":2,"tid":0,"id":%d,"ts":%d,"name":"t%d"},' % (n, n, n)
            + _tf_op(0, 0, "x", "MatMul", 2 * n, 1)
        )
    ),
}
