"""Large files of the formats that are text, always the same; see `large_files.py`.

Each maker yields pieces of text, each a few records, until it is closed; what it yields first and
last opens and ends the file.
"""

import json
import random
from itertools import count

US_PER_STEP = 2000
LAYERS = 96
KERNELS = 240
RANKS = 4
MICROBATCHES = 16


def dumps(record):
    """A record as profilers write it."""
    return json.dumps(record, separators=(",", ":"))


def chrome_trace():
    """A tracer of one's own: begins and ends on a thread, kernels on the streams of a device."""
    yield "["
    device = {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "/device:GPU:0"}}
    stream = {"name": "thread_name", "ph": "M", "pid": 2, "tid": 3, "args": {"name": "Stream #3"}}
    yield f"{dumps(device)},{dumps(stream)}"
    for step in count():
        t = 1000.0 + 4 * LAYERS * step
        yield "," + dumps({"name": f"step {step}", "ph": "B", "ts": t, "pid": 1, "tid": 1})
        for layer in range(LAYERS):
            yield layer_of_trace(layer, t + 3.5 * layer)
        yield "," + dumps({"ph": "E", "ts": t + 3.6 * LAYERS, "pid": 1, "tid": 1})


def layer_of_trace(layer, t):
    """A range that launches a kernel."""
    inside = {"pid": 1, "tid": 1}
    kernel = f"void kernel_{layer % 60}<float, {layer % KERNELS}>(float*, int)"
    records = [
        {"name": f"layer_{layer}/mlp", "ph": "B", "ts": t, **inside},
        {"name": "cudaLaunchKernel", "ph": "B", "ts": t + 0.5, **inside},
        {"ph": "E", "ts": t + 2.5, **inside},
        {"ph": "E", "ts": t + 3, **inside},
        {"name": kernel, "ph": "X", "ts": t + 4, "dur": 2.9, "pid": 2, "tid": 3, "cat": "gpu_op"},
    ]
    return "".join("," + dumps(record) for record in records)


def names():
    """A server whose every request has a name of its own."""
    yield '[{"name":"process_name","ph":"M","pid":1,"args":{"name":"server"}}'
    noise = random.Random(3)  # noqa: S311 - the same names every time, no secret
    for number in count():
        record = {"name": f"request {number}", "cat": "serve", "ph": "X", "ts": 1000 + 25 * number}
        yield "," + dumps({**record, "dur": noise.randrange(40, 90), "pid": 1, "tid": number % 4})


def kineto_names():
    """A PyTorch trace with a name of its own for every range."""
    yield '{"schemaVersion":1,"deviceProperties":[],"traceEvents":[{}'
    for number in count():
        place = {"ph": "X", "pid": 10, "tid": 10, "ts": 25 * number}
        request = {**place, "cat": "user_annotation", "name": f"request {number}", "dur": 22}
        operation = {**place, "cat": "cpu_op", "name": "aten::mm", "dur": 9}
        yield f",{dumps(request)},{dumps(operation)}"


def horovod():
    """Timeline of a job that exchanges 160 gradients a step; it is never closed."""
    yield "[\n"
    for tensor in range(1, 161):
        name = f"DistributedAdam_Allreduce/HorovodAllreduce_grads_{tensor}_0"
        yield dumps({"name": "process_name", "ph": "M", "pid": tensor, "args": {"name": name}})
        yield ",\n"
    for step in count():
        for tensor in range(1, 161):
            yield exchange(tensor, 1000 + US_PER_STEP * step + 3 * tensor)


def exchange(tensor, t):
    """The negotiation of a tensor and its exchange."""
    records = [{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": t}]
    records += [{"ph": "X", "name": str(r), "ts": t + 5 * r, "dur": 0} for r in range(RANKS)]
    records += [{"ph": "E", "ts": t + 15}, {"ph": "B", "name": "ALLREDUCE", "ts": t + 520}]
    for place, name in enumerate(("QUEUE", "MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE")):
        begin = t + 520 + 15 * place
        records += [{"ph": "B", "name": name, "ts": begin}, {"ph": "E", "ts": begin + 15}]
    records += [{"ph": "E", "ts": t + 570, "args": {"dtype": "float32", "shape": "[64, 64]"}}]
    return "".join(json.dumps({**record, "pid": tensor}) + ",\n" for record in records)


def megascan():
    """The raw file of a rank: iterations of microbatches."""
    label = {"microbatch": 0, "model_chunk": 0, "pp_rank": 1}
    before = ""
    for _ in count():
        records = [{"name": "iteration", "ph": "B", "pad_before": 200_000}]
        for t in range(0, MICROBATCHES * 130_000, 130_000):
            records += [{"name": "forward-step", "ph": "B", "rel_ts": t}]
            for layer in range(6):
                at, name = t + 20_000 * layer, f"layer-{layer}"
                records += [{"name": name, "ph": "B", "rel_ts": at + 1000}]
                records += [{"name": name, "ph": "E", "rel_ts": at + 20_000, **label}]
            records += [{"name": "forward-step", "ph": "E", "rel_ts": t + 129_500, **label}]
        whole = MICROBATCHES * 130_000 + 5000
        records += [{"name": "iteration", "ph": "E", "rel_ts": whole, "duration_wall": whole + 100}]
        yield before or "["
        yield ",".join(json.dumps(record, indent=2) for record in records)
        before = ","


def aggregated():
    """Ranks in one file, as MegaScan's script puts them together."""
    before = "["
    for step in count():
        records = []
        for rank in range(RANKS):
            at, told = 2000 * step + 60 * rank, {"iteration": step}
            for layer in range(6):
                ends = {**told, "microbatch": 0, "model_chunk": 0, "pp_rank": rank}
                for ph, since, args in (("B", 5, told), ("E", 40, ends)):
                    place = {"ph": ph, "ts": at + 40 * layer + since, "pid": rank, "tid": 0}
                    records.append({"name": f"layer-{layer}", **place, "args": args})
        records.sort(key=lambda record: record["ts"])
        yield before + ",".join(json.dumps(record, indent=2) for record in records)
        before = ","


def memory_timeline():
    """Allocations and frees as PyTorch's memory profiler lists them."""
    noise = random.Random(5)  # noqa: S311 - the same sizes every time, no secret
    t, live, before = 1_700_000_000_000_000_000, [], "["
    while True:
        t += noise.randrange(500, 30_000)
        if live and noise.random() < 0.5:
            size, category = live.pop(noise.randrange(max(0, len(live) - 200), len(live)))
            row = [t, 4, -size, category]
        else:
            live.append((512 * noise.randrange(1, 9000), noise.choice((3, 4, 4, 5, 6))))
            row = [t, 2, *live[-1]]
        yield before + json.dumps(row)
        before = ", "


def tf_timeline():
    """Runs of a graph as TensorFlow 1's Timeline shows them."""
    gpu, stream = "/job:localhost/replica:0/task:0/device:GPU:0", "/device:GPU:0/stream:all"
    rows = [f"{gpu} Compute", f"{stream} Compute"]
    named = [
        {"name": "process_name", "ph": "M", "pid": n, "args": {"name": r}}
        for n, r in enumerate(rows)
    ]
    yield '{"traceEvents": [' + ", ".join(json.dumps(row) for row in named)
    operations = ("Conv2D", "BiasAdd", "Relu", "MaxPool", "MatMul")
    for number in count():
        op = operations[number % len(operations)]
        args = {"name": f"tower_0/block_{number % 300 // 50}/{op}_{number % 300}", "op": op}
        record = {"name": op, "cat": "Op", "ph": "X", "dur": 5 + number % 13, "args": args}
        at = 1_500_000_000_000_000 + 20 * number
        yield ", " + json.dumps({**record, "pid": 0, "tid": number % 3, "ts": at})
        yield ", " + json.dumps({**record, "pid": 1, "tid": 0, "ts": at + 30, "dur": 4})


# Makers, and what ends their files.
MAKERS = {
    "chrome_trace": (chrome_trace, "]"),
    "chrome_trace, all names differ": (names, "]"),
    "kineto, all names differ": (kineto_names, "]}"),
    "horovod": (horovod, ""),
    "megascan": (megascan, "]"),
    "megascan, all ranks": (aggregated, "]"),
    "memory_timeline": (memory_timeline, "]"),
    "tf_timeline": (tf_timeline, "]}"),
}


def write(name, size, path):
    """Write a file of about a size, bytes."""
    maker, end = MAKERS[name]
    with path.open("w") as file:
        for text in maker():
            size -= file.write(text)
            if size <= 0:
                break
        file.write(end)
