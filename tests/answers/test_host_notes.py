"""Sentences about the machine."""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.answers.host_notes import host_notes
from stepwhy.findings import GpuLoad, HostLoad

NOTHING = HostLoad(None, None, None, None)
MIB = 1 << 20


def test_a_calm_machine_needs_no_word():
    assert host_notes(None) == ()
    assert host_notes(NOTHING) == ()
    calm = HostLoad(0.1, 0.2, 8, 1, disk_wait_share=0.04, machine_disk_stall_share=0.5)
    assert host_notes(replace(calm, gpus=(GpuLoad(0, throttled_share=0.01),))) == ()


def test_waiting_for_cores():
    (note,) = host_notes(HostLoad(0.24, 1.5, 2, None))
    assert "24 % of its runnable time" in note
    assert "1.5 of 2 busy" in note


def test_the_main_thread_was_blocked_on_a_disk():
    load = replace(NOTHING, disk_wait_share=0.2, disk_read_bytes=5 * MIB, disk_written_bytes=0)
    assert host_notes(load) == (
        "The main thread was blocked on a disk for 20 % of the time (the process read 5.00 MiB).",
    )


def test_only_the_machine_is_known_to_wait_for_disks():
    (note,) = host_notes(replace(NOTHING, machine_disk_stall_share=0.3))
    assert "All runnable work" in note
    assert "is unknown" in note


def test_a_gpu_that_heat_slows_down():
    gpus = (GpuLoad(0, throttled_share=None), GpuLoad(1, throttled_share=0.5))
    (note,) = host_notes(replace(NOTHING, gpus=gpus))
    assert note.startswith("GPU 1 was slowed down")
    assert "50 %" in note
