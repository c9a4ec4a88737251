"""GPUs of a run, from samples computed by hand."""

from __future__ import annotations

from stepwhy.analyse.answers.host_load import gpu_loads
from stepwhy.result import GpuLoad
from stepwhy.trace import DeviceKind, Meta, TraceBuilder

S = 1_000_000_000
GIB = 1 << 30


def trace(*gpus):
    """GPUs as (index, model, {key: a sample per second})."""
    builder = TraceBuilder()
    builder.device("GPU:0", DeviceKind.GPU, "what a profiler saw")
    for index, model, samples in gpus:
        device = builder.device(f"nvml:{index}", DeviceKind.GPU, model)
        for key, values in samples.items():
            for second, value in enumerate(values):
                builder.add(
                    "counters",
                    time_ns=second * S,
                    name=builder.intern(f"gpu {key}"),
                    value=value,
                    device=device,
                )
    return builder.finish(Meta("step-log"))


def test_means_peaks_and_shares():
    loads = gpu_loads(
        trace(
            (
                3,
                "NVIDIA A100",
                {
                    "utilisation_percent": [40, 60, 80],
                    "used_bytes": [GIB, 3 * GIB, 2 * GIB],
                    "total_bytes": [40 * GIB] * 3,
                    "process_bytes": [0, 2 * GIB, GIB],
                    "power_mw": [100_000, 200_000, 300_000],
                    "sm_clock_mhz": [1000, 1200, 1400],
                    "throttle_reasons": [0x4, 0x4, 0x4 | 0x20],
                },
            )
        )
    )
    assert loads == (
        GpuLoad(
            index=3,
            model="NVIDIA A100",
            mean_utilisation=0.6,
            peak_used_bytes=3 * GIB,
            total_bytes=40 * GIB,
            peak_process_bytes=2 * GIB,
            mean_power_watts=200.0,
            mean_sm_clock_hz=1_200_000_000,
            throttled_share=0.25,  # from 0 to 1 within the last of two seconds
            power_capped_share=1.0,
        ),
    )


def test_what_a_gpu_does_not_tell_is_missing():
    assert gpu_loads(trace((0, "", {"process_bytes": [7, 5]}))) == (
        GpuLoad(index=0, peak_process_bytes=7),
    )


def test_gpus_in_the_order_of_the_driver():
    used = {"used_bytes": [1]}
    assert [g.index for g in gpu_loads(trace((10, "", used), (2, "", used)))] == [2, 10]


def test_no_gpu_was_sampled():
    assert gpu_loads(trace()) == ()


def test_idle_clocks_are_not_throttled():
    (load,) = gpu_loads(trace((0, "", {"throttle_reasons": [0x1, 0x1]})))
    assert (load.throttled_share, load.power_capped_share) == (0.0, 0.0)
