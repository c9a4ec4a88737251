"""GPUs that a profiler saw, and GPUs that only the driver named."""

from stepwhy.analyse.program.gpus import framework_devices, sampled_gpus
from stepwhy.trace import DeviceKind, Meta, TraceBuilder


def test_a_gpu_that_was_only_sampled_is_none_of_the_frameworks():
    builder = TraceBuilder()
    builder.device("GPU:0", DeviceKind.GPU, "")
    sampled = builder.device("nvml:0", DeviceKind.GPU, "")
    name = builder.intern("gpu used_bytes")
    builder.add("counters", time_ns=0, name=name, value=1, device=sampled)
    trace = builder.finish(Meta("step-log"))
    assert framework_devices(trace) == [0]
    assert sampled_gpus(trace) == [(sampled, "nvml:0")]
