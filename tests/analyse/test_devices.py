"""What each device did: totals over the whole file, and the host as its own device."""

import cProfile

from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.activity import devices
from stepwhy.analyse.facts import Facts
from stepwhy.engine import assemble
from stepwhy.trace import Copy, DeviceKind, Kind


def test_totals_are_unions_and_kernel_time_is_a_sum():
    line = Timeline()
    line.add(line.stream(), Kind.KERNEL, 0, 10)
    line.add(line.stream(number=8), Kind.KERNEL, 5, 15)
    line.add(line.stream(number=9), Kind.COLLECTIVE, 12, 20)
    line.add(line.stream(), Kind.MEMSET, 30, 31)
    line.copy(40, 44, size=100)
    line.copy(42, 46, size=50, stream=line.stream(number=8))
    line.copy(50, 51, Copy.D2H, size=7)
    line.add(line.stream(), Kind.DEVICE_WAIT, 60, 90)
    (gpu,) = Facts(line.trace()).totals
    assert gpu.busy_ns == (20 + 1 + 6 + 1) * MS
    assert gpu.kernel_ns == (10 + 10 + 8) * MS
    assert gpu.kernels == 3
    assert (gpu.communication_ns, gpu.exposed_communication_ns) == (8 * MS, 5 * MS)
    assert (gpu.h2d_ns, gpu.h2d_bytes) == (6 * MS, 150)
    assert (gpu.d2h_ns, gpu.d2h_bytes) == (1 * MS, 7)


def test_totals_of_two_streams():
    line = Timeline()
    for start in (0, 4, 20, 21, 40, 60):
        line.add(line.stream(), Kind.KERNEL, start, start + 10)
        line.add(line.stream(number=8), Kind.KERNEL, start + 3, start + 5)
    whole = Facts(line.trace()).totals
    assert whole[0].busy_ns == (14 + 11 + 10 + 10) * MS


def test_sizes_that_are_not_recorded_are_not_zero():
    line = Timeline()
    line.copy(0, 1)
    (gpu,) = Facts(line.trace()).totals
    assert gpu.h2d_bytes is None
    assert gpu.d2h_bytes == 0


def test_sizes_that_are_recorded_in_part_are_summed():
    line = Timeline()
    line.copy(0, 1)
    line.copy(1, 2, size=5)
    assert Facts(line.trace()).totals[0].h2d_bytes == 5


def test_accelerators_come_first_and_lead():
    line = Timeline()
    line.add(line.executor("CPU:0"), Kind.KERNEL, 0, 9)
    line.add(line.stream("GPU:0"), Kind.KERNEL, 0, 1)
    facts = Facts(line.trace())
    assert [a.name for a in facts.activities] == ["GPU:0", "CPU:0"]
    assert [a.name for a in facts.leading] == ["GPU:0"]


def test_a_device_without_work_is_not_listed():
    line = Timeline()
    line.stream("GPU:1")
    line.add(line.stream("GPU:0"), Kind.KERNEL, 0, 1)
    line.add(line.stream("GPU:2"), Kind.DEVICE_ANNOTATION, 0, 1)
    assert [t.name for t in Facts(line.trace()).totals] == ["GPU:0"]


def test_without_devices_the_host_is_the_device():
    line = Timeline()
    main = line.thread()
    line.add(main, Kind.OP, 0, 10, name="aten::linear")
    line.add(main, Kind.OP, 2, 8, name="aten::mm")
    line.add(main, Kind.INPUT, 20, 30)
    line.add(main, Kind.OP, 21, 29, name="aten::stack")
    line.add(line.thread("gloo"), Kind.COLLECTIVE, 5, 15)
    facts = Facts(line.trace())
    (cpu,) = facts.activities
    assert (cpu.name, cpu.kind) == ("CPU", DeviceKind.CPU)
    assert cpu.compute.total_ns == 10 * MS
    assert cpu.communication.total_ns == 10 * MS
    assert not facts.has_accelerator


def test_python_and_waits_inside_an_operation_are_not_its_computation():
    line = Timeline()
    main = line.thread()
    line.add(main, Kind.OP, 0, 10, name="MyFunctionBackward")
    line.add(main, Kind.PYTHON, 1, 5)
    line.add(main, Kind.OP, 2, 3, name="aten::mm")
    line.add(main, Kind.WAIT, 6, 9)
    (cpu,) = Facts(line.trace()).activities
    assert cpu.compute.total_ns == (1 + 1 + 1 + 1) * MS


def test_merged_ranks_show_the_devices_of_the_driving_process_only():
    line = Timeline()
    for process, device in ((1, "GPU:0"), (2, "GPU:1")):
        thread = line.thread(f"main of {process}", process=process)
        line.steps(0, 100, track=thread)
        line.launch(
            (1, 2), (2, 50), 10 * process, track=thread, stream=line.stream(device, process)
        )
    facts = Facts(line.trace())
    assert facts.merged_processes == 2
    assert [a.name for a in facts.activities] == ["GPU:0", "GPU:1"]
    assert [a.name for a in facts.leading] == ["GPU:0"]


def test_operations_inside_compilation_and_storage_are_not_computation():
    line = Timeline().steps(0, 40)
    line.add(line.thread(), Kind.COMPILE, 0, 20)
    line.add(line.thread(), Kind.OP, 5, 15)
    line.add(line.thread(), Kind.STORAGE, 20, 30)
    line.add(line.thread(), Kind.OP, 22, 25)
    line.add(line.thread(), Kind.OP, 30, 40)
    breakdown = Facts(line.trace()).breakdown
    assert (breakdown["compile"], breakdown["storage"]) == (20 * MS, 10 * MS)
    assert breakdown["compute"] == 10 * MS


def cluster(devices, steps=3):
    """Devices of which each works a little at its own time, in steps of 100 ms."""
    line = Timeline().steps(*range(0, 100 * steps, 100), 100 * steps)
    line.add(line.thread(), Kind.SYNC, 0, 90)
    for number in range(devices):
        kind = "executor" if number % 3 == 2 else "stream"
        place = getattr(line, kind)(f"{'CPU' if number % 3 == 2 else 'GPU'}:{number}")
        line.add(place, Kind.KERNEL, number % 70, number % 70 + 3)
        line.add(place, Kind.COLLECTIVE, number % 70 + 150, number % 70 + 160)
    return line


def test_each_of_many_devices_has_the_same_breakdown_as_on_its_own():
    facts = Facts(cluster(100).trace())
    assert len(facts.activities) == 100
    assert [facts.breakdown_of(a) for a in facts.activities] == [
        facts.mean_of(p) for p in facts.device_partitions
    ]


def test_devices_beyond_the_most_count_together(monkeypatch):
    trace = cluster(30).trace()
    whole = Facts(trace)
    monkeypatch.setattr(devices, "MOST_DEVICES", 10)
    facts = Facts(trace)
    assert len(facts.activities) == 10 + 1  # no room is left for CPUs, which count as one
    assert [a.name for a in facts.activities[-2:]] == ["11 other devices", "10 other devices"]
    assert facts.breakdown == whole.breakdown
    assert sum(len(a.rows) for a in facts.activities) == sum(len(a.rows) for a in whole.activities)
    assert [a.kind for a in facts.activities[-2:]] == [DeviceKind.GPU, DeviceKind.CPU]


def test_a_result_says_that_devices_count_together(monkeypatch):
    monkeypatch.setattr(devices, "MOST_DEVICES", 10)
    monkeypatch.setattr(assemble, "MOST_DEVICES", 10)
    result = assemble.assemble(Facts(cluster(30).trace()), "x", "kineto")
    (counted,) = result.inputs[0].health
    assert (counted.counter, counted.count) == ("devices-together", 20)
    assert len(result.devices) == 11
    assert result.devices[9].name == "11 other devices"


def calls_of(function):
    """How many calls of functions something makes: work, whatever else the machine does."""
    profile = cProfile.Profile()
    profile.enable()
    function()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def test_the_work_for_a_device_does_not_grow_with_their_number():
    assemble.assemble(Facts(cluster(3).trace()), "x", "kineto")  # what is imported once
    few, many = (cluster(n).trace() for n in (200, 800))
    few_calls = calls_of(lambda: assemble.assemble(Facts(few), "x", "kineto"))
    many_calls = calls_of(lambda: assemble.assemble(Facts(many), "x", "kineto"))
    assert many_calls < 5 * few_calls


def test_kernels_of_a_compiled_graph_compute_although_they_have_no_records():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.FRAMEWORK, 0, 90, name="Torch-Compiled Region: 0/0")
    line.add(main, Kind.ANNOTATION, 10, 80, name="## Call CompiledFxGraph f00 ##")
    line.add(main, Kind.OP, 20, 50, name="aten::addmm")
    line.add(main, Kind.ANNOTATION, 90, 95, name="## metrics ##")
    facts = Facts(line.trace(framework="pytorch"))
    assert facts.breakdown["compute"] == 70 * MS
