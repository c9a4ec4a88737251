"""GPUs, with a module that behaves like `pynvml`, including missing values."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import pytest

from stepwhy.record.sampling import nvml
from stepwhy.record.sampling.nvml import Gpus
from stepwhy.record.sampling.processes import Processes

GIB = 1 << 30


class NVMLError(Exception):
    """Like the real one, with the error code of the driver."""

    def __init__(self, value):
        super().__init__(value)
        self.value = value


NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 3, 4, 6, 13, 15


def fake_module(*, users=(), without=(), lost=False, count=1, parts=None):
    """A driver with some equal GPUs; only the first is used.

    As the real one does, it answers for a partition by its handle, does not know its use, and fails
    for a place without a partition.

    Args:
        users: (process id, bytes) of the programs on GPU 0; bytes None as in a partition.
        without: Names of functions that this GPU or driver does not support.
        lost: The GPU has fallen off the bus.
        count: Number of GPUs.
        parts: By its place, the (process id, bytes) of each partition (MIG) of GPU 0.
    """

    def part(handle, place):
        if parts is None or place not in parts or handle[1] != 0:
            raise NVMLError(NOT_FOUND)
        return ("part", 0, place)

    def processes(handle):
        if parts is not None and handle[0] == "handle":
            raise NVMLError(NO_PERMISSION)  # of all partitions, for those who may ask
        listed = parts[handle[2]] if handle[0] == "part" else users
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=used, gpuInstanceId=0xFFFFFFFF)
            for pid, used in listed
            if handle[1] == 0
        ]

    def use(_):
        if parts is not None:
            raise NVMLError(NOT_SUPPORTED)
        return SimpleNamespace(gpu=87, memory=40)

    def memory(handle):
        share = 8 if handle[0] == "part" else 1
        return SimpleNamespace(
            total=40 * GIB // share, free=30 * GIB // share, used=10 * GIB // share
        )

    def function(name, answer):
        def call(*arguments):
            if name in without or (lost and name != "nvmlDeviceGetCount"):
                raise NVMLError(GPU_IS_LOST if lost else NOT_SUPPORTED)
            return answer(*arguments)

        return call

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: count,
        "nvmlDeviceGetHandleByIndex": lambda index: ("handle", index),
        "nvmlDeviceGetMinorNumber": lambda handle: handle[1],
        "nvmlDeviceGetName": lambda _: "NVIDIA A100",
        "nvmlDeviceGetComputeRunningProcesses": processes,
        "nvmlDeviceGetUtilizationRates": use,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetMigMode": lambda _: [int(parts is not None)] * 2,
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": part,
        "nvmlDeviceGetPowerUsage": lambda _: 250_000,
        "nvmlDeviceGetClockInfo": lambda _, kind: {1: 1410}[kind],
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: 4,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 4,
    }
    module = ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.NVML_CLOCK_SM, module.NVML_DEVICE_MIG_ENABLE = 1, 1
    for name, answer in answers.items():
        setattr(module, name, function(name, answer))
    return module


WHOLE = {
    "index": 0,
    "name": "NVIDIA A100",
    "utilisation_percent": 87,
    "used_bytes": 10 * GIB,
    "total_bytes": 40 * GIB,
    "power_mw": 250_000,
    "sm_clock_mhz": 1410,
    "throttle_reasons": 4,
}


def sampled(module, tmp_path, pids=(7, 8)):
    return Gpus(module).sample(pids, Processes(tmp_path))


def test_the_process_that_the_driver_lists_has_the_gpu(tmp_path):
    module = fake_module(users=[(7, 9 * GIB), (4242, GIB)], count=2)
    assert sampled(module, tmp_path) == {7: [{**WHOLE, "process_bytes": 9 * GIB}]}


def test_two_processes_share_a_gpu(tmp_path):
    found = sampled(fake_module(users=[(7, 1), (8, 2)]), tmp_path)
    assert {pid: gpus[0]["process_bytes"] for pid, gpus in found.items()} == {7: 1, 8: 2}


def test_idle_gpu_without_users_is_left_out(tmp_path):
    assert sampled(fake_module(users=[(4242, GIB)]), tmp_path) == {}


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        ("nvmlDeviceGetUtilizationRates", {"utilisation_percent"}),  # a partition (MIG)
        ("nvmlDeviceGetPowerUsage", {"power_mw"}),  # consumer GPUs, virtual GPUs
        ("nvmlDeviceGetMemoryInfo", {"used_bytes", "total_bytes"}),
        ("nvmlDeviceGetClockInfo", {"sm_clock_mhz"}),
        ("nvmlDeviceGetName", {"name"}),
        ("nvmlDeviceGetCurrentClocksEventReasons", set()),  # the older name answers
    ],
)
def test_unsupported_values_are_absent(tmp_path, function, keys):
    (entry,) = sampled(fake_module(users=[(7, 1)], without=[function]), tmp_path)[7]
    assert entry == {**{k: v for k, v in WHOLE.items() if k not in keys}, "process_bytes": 1}


def test_a_module_that_is_older_than_a_function(tmp_path):
    module = fake_module(users=[(7, 1)])
    del module.nvmlDeviceGetCurrentClocksEventReasons
    del module.nvmlDeviceGetPowerUsage
    (entry,) = sampled(module, tmp_path)[7]
    assert entry["throttle_reasons"] == 4
    assert "power_mw" not in entry


def test_memory_that_the_driver_does_not_attribute_is_absent(tmp_path):
    (entry,) = sampled(fake_module(users=[(7, None)]), tmp_path)[7]
    assert entry == WHOLE


def test_open_device_file_identifies_the_process_in_a_container(tmp_path):
    """There, the driver lists process ids of the host, or none."""
    for pid, target in ((7, "/dev/nvidia0"), (8, "/dev/null")):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "fd" / "5").symlink_to(target)
    assert sampled(fake_module(users=[(31337, GIB)]), tmp_path) == {7: [WHOLE]}
    unlisted = fake_module(without=["nvmlDeviceGetComputeRunningProcesses"])
    assert sampled(unlisted, tmp_path) == {7: [WHOLE]}


def opened(tmp_path, pid, *files):
    (tmp_path / str(pid) / "fd").mkdir(parents=True)
    for number, target in enumerate(files):
        (tmp_path / str(pid) / "fd" / str(number)).symlink_to(target)


def namespace(tmp_path, number):
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to(f"pid:[{number}]")


def test_an_id_of_the_host_that_equals_one_of_the_container_is_another_process(tmp_path):
    namespace(tmp_path, 4026532771)
    opened(tmp_path, 7, "/dev/null")
    opened(tmp_path, 8, "/dev/nvidia0")
    assert sampled(fake_module(users=[(7, 9 * GIB), (31337, GIB)]), tmp_path) == {8: [WHOLE]}


def test_on_the_host_ids_are_those_of_the_driver(tmp_path):
    namespace(tmp_path, 4026531836)
    assert sampled(fake_module(users=[(7, GIB)]), tmp_path) == {
        7: [{**WHOLE, "process_bytes": GIB}]
    }


SPLIT = {
    k: v for k, v in WHOLE.items() if k not in {"utilisation_percent", "power_mw", "used_bytes"}
}
PART = {**SPLIT, "used_bytes": 10 * GIB // 8, "total_bytes": 5 * GIB}


def test_memory_of_a_partition_is_its_own(tmp_path):
    module = fake_module(parts={0: [(4242, 3 * GIB)], 2: [(7, GIB)]})
    assert sampled(module, tmp_path) == {7: [{**PART, "process_bytes": GIB}]}


def test_the_only_partition_in_a_container_is_the_one_in_use(tmp_path):
    namespace(tmp_path, 4026532771)
    opened(tmp_path, 7, "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21")
    assert sampled(fake_module(parts={0: [(31337, GIB)]}), tmp_path) == {7: [PART]}


def test_with_several_partitions_in_a_container_memory_is_unknown(tmp_path):
    namespace(tmp_path, 4026532771)
    opened(tmp_path, 7, "/dev/nvidia0")
    unknown = {k: v for k, v in SPLIT.items() if k != "total_bytes"}
    assert sampled(fake_module(parts={0: [], 1: []}), tmp_path) == {7: [unknown]}


def test_lost_gpu_is_not_an_error(tmp_path):
    gpus = Gpus(fake_module(users=[(7, 1)]))
    gpus._nvml = fake_module(lost=True)
    assert gpus.sample([7], Processes(tmp_path)) == {}
    gpus.close()


def test_no_entries_without_a_gpu(tmp_path):
    none = Gpus.none()
    assert none.sample([7], Processes(tmp_path)) == {}
    none.close()


def test_without_the_library_the_module_is_not_imported(monkeypatch):
    monkeypatch.setattr(nvml, "LIBRARY", "libno-such-library.so.9")
    monkeypatch.setitem(sys.modules, "pynvml", None)  # its import would fail
    assert Gpus.open() is None


@pytest.mark.parametrize("without", [(), ("nvmlInit",)])
def test_driver_that_does_not_start_gives_no_gpu(monkeypatch, without):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: None)
    monkeypatch.setitem(sys.modules, "pynvml", fake_module(without=without))
    assert (Gpus.open() is None) == bool(without)


def test_real_module_has_all_used_names():
    """The fake has the names and the error type of nvidia-ml-py."""
    real = pytest.importorskip("pynvml")
    fake = fake_module()
    assert not {name for name in vars(fake) if "vml" in name and not hasattr(real, name)}
    assert real.NVML_CLOCK_SM == fake.NVML_CLOCK_SM
    assert real.NVML_DEVICE_MIG_ENABLE == fake.NVML_DEVICE_MIG_ENABLE
    assert issubclass(real.NVMLError, Exception)
