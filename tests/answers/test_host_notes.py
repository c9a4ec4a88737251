"""What is worth a note about the machine."""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.analyse.answers.host_notes import core_contention, core_wait, host_notes
from stepwhy.result import Breakdown, GpuLoad, HostLoad
from stepwhy.result.machine import CoreContention, CoreWait, DiskWait, Throttled

NOTHING = HostLoad(None, None, None, None)
MIB = 1 << 20


def notes(load):
    return list(host_notes(load))


def test_a_calm_machine_needs_no_word():
    assert notes(None) == []
    assert notes(NOTHING) == []
    calm = HostLoad(0.1, 0.2, 8, 1, disk_wait_share=0.04, machine_disk_stall_share=0.5)
    assert notes(replace(calm, gpus=(GpuLoad(0, throttled_share=0.01),))) == []


def test_waiting_for_cores():
    assert core_contention(HostLoad(0.24, 1.5, 2, None)) == CoreContention(0.24, 1.5, 2)
    assert core_contention(HostLoad(0.1, 1.5, 2, None)) is None
    # Threads of a framework that compete with each other, on a machine without other programs.
    assert core_contention(HostLoad(0.3, 0.1, 2, None)) is None
    assert core_contention(HostLoad(0.4, 0.1, 2, None)) == CoreContention(0.4, 0.1, 2)
    assert core_contention(HostLoad(0.9, 0.1, 2, None, runnable_threads=12.0)) == CoreContention(
        0.9, 0.1, 2, 12.0
    )
    assert core_contention(HostLoad(0.9, 0.1, 2, None, runnable_threads=2.9)) == CoreContention(
        0.9, 0.1, 2
    )
    assert core_contention(NOTHING) is None
    assert core_contention(None) is None


def test_the_driving_thread_waits_for_a_core():
    step = Breakdown(100, {}, {}, core_wait_ns=20)
    busy = HostLoad(0.6, 1.5, 2, None, runnable_threads=1.2)
    assert core_wait(step, busy) == CoreWait(20, 100, 2, 1.5)
    crowded = replace(busy, runnable_threads=6.0)
    assert core_wait(step, crowded) == CoreWait(20, 100, 2, 1.5, 6.0)
    alone = replace(busy, background_cores=0.1)
    assert core_wait(step, alone) == CoreWait(20, 100, 2, None, None, is_own=True)
    assert core_wait(step, None) == CoreWait(20, 100)
    assert core_wait(step, NOTHING) == CoreWait(20, 100)


def test_a_short_or_unknown_wait_for_a_core_needs_no_word():
    assert core_wait(Breakdown(100, {}, {}, core_wait_ns=4), None) is None
    assert core_wait(Breakdown(100, {}, {}), None) is None
    assert core_wait(Breakdown(0, {}, {}, core_wait_ns=0), None) is None


def test_the_main_thread_was_blocked_on_a_disk():
    load = replace(NOTHING, disk_wait_share=0.2, disk_read_bytes=5 * MIB, disk_written_bytes=0)
    assert notes(load) == [DiskWait(0.2, False, 5 * MIB, 0)]


def test_only_the_machine_is_known_to_wait_for_disks():
    assert notes(replace(NOTHING, machine_disk_stall_share=0.3)) == [
        DiskWait(0.3, True, None, None)
    ]


def test_a_gpu_that_heat_slows_down():
    gpus = (GpuLoad(0, throttled_share=None), GpuLoad(1, throttled_share=0.5))
    assert notes(replace(NOTHING, gpus=gpus)) == [Throttled(1, 0.5)]
