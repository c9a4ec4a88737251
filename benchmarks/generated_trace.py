"""A Kineto trace of a training loop, as large as wanted and always the same."""

import json
import random

HOST, DEVICE, STREAM = 100, 0, 7
STEPS = 6
OPERATIONS = ("conv2d", "batch_norm", "relu", "add_")
RECORDS_PER_OPERATION = 4


class Loop:
    """A host that launches one kernel per operation, and a device that runs them in order."""

    def __init__(self):
        self.noise = random.Random(7)  # noqa: S311 - the same trace every time, no secret
        self.records = []
        self.host_us = 0.0
        self.device_us = 0.0

    def add(self, category, name, start_us, dur_us, **args):
        on_device = category == "kernel"
        pid, tid = (DEVICE, STREAM) if on_device else (HOST, HOST)
        times = {"ts": round(start_us, 3), "dur": round(dur_us, 3)}
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times}
        self.records.append({**event, "args": args})

    def operation(self, number):
        name = OPERATIONS[number % len(OPERATIONS)]
        took = 20 + 10 * self.noise.random()
        launch = self.host_us + took / 2
        shapes = {"Input Dims": [[32, 64, 56, 56], [64]], "Sequence number": number}
        link = {"correlation": 1 + len(self.records)}
        self.add("cpu_op", f"aten::{name}", self.host_us, took, **shapes)
        self.add("cpu_op", f"aten::cudnn_{name}", self.host_us + 2, took - 4, **shapes)
        self.add("cuda_runtime", "cudaLaunchKernel", launch, 5, **link)
        self.kernel(name, launch + 4, **link)
        self.host_us += took + 1

    def kernel(self, name, earliest_us, **link):
        start = max(self.device_us, earliest_us) + 0.5
        busy = 5 + 30 * self.noise.random()
        full_name = f"void at::native::{name}_kernel<float, 4>(int, float const*, float*)"
        self.add("kernel", full_name, start, busy, **link)
        self.device_us = start + busy

    def step(self, number, operations):
        start = self.host_us
        for i in range(operations):
            self.operation(i)
        self.host_us = max(self.host_us, self.device_us)  # the loop reads the loss
        self.add("user_annotation", f"ProfilerStep#{number}", start, self.host_us - start)
        self.host_us += 50


def kineto_trace(events):
    """The bytes of a trace of about this many events."""
    loop = Loop()
    for number in range(STEPS):
        loop.step(number, operations=events // (STEPS * RECORDS_PER_OPERATION))
    return json.dumps({"schemaVersion": 1, "traceEvents": loop.records}).encode()
