"""Notes about the machine in words."""

from stepwhy.result.machine import CoreContention, CoreWait, DiskWait, Throttled
from stepwhy.result.wording.machine import core_wait_sentence, machine_sentence, unreliable

MIB = 1 << 20
MS = 1_000_000


def test_waiting_for_cores():
    assert unreliable(CoreContention(0.24, 1.5, 2)) == (
        "The measurement is unreliable: CPU cores were contended. The process spent 24 % of its "
        "runnable time waiting for a core, while other programs kept 1.5 of 2 busy."
    )
    assert unreliable(CoreContention(0.24, None, 2)).endswith("waiting for a core.")
    assert unreliable(CoreContention(0.9, 0.5, 2, 12.0)).endswith(
        "for a core: 12 of its threads wanted to run at once, while other programs kept 0.5 of 2 "
        "busy."
    )


def test_own_threads_that_compete_leave_the_step_time_as_it_is():
    assert unreliable(CoreContention(0.45, 0.1, 2, 5.2)) == (
        "The measurement of single operations is unreliable, that of the whole step is not: 5 of "
        "the program's own threads wanted to run at once on 2 cores, and the process spent 45 % of "
        "its runnable time waiting for a core."
    )
    assert "of the whole step" not in unreliable(CoreContention(0.45, None, 2, 5.2))


def test_the_driving_thread_waits_for_a_core():
    assert core_wait_sentence(CoreWait(118 * MS, 218 * MS, 2, 1.5)) == (
        "The driving thread waits for a CPU core for 118 ms of every step (54 %): other programs "
        "keep 1.5 of 2 cores busy. The categories include this wait."
    )
    own = core_wait_sentence(CoreWait(118 * MS, 218 * MS, 2, None, 5.2, True))
    assert "(54 %): 5 of the program's own threads want to run at once. The" in own
    both = core_wait_sentence(CoreWait(118 * MS, 218 * MS, 2, 1.5, 5.2))
    assert "want to run at once and other programs keep 1.5 of 2 cores busy. The" in both
    few = core_wait_sentence(CoreWait(118 * MS, 218 * MS, 2, is_own=True))
    assert "(54 %): the program's own threads and processes compete for 2 cores. The" in few
    assert core_wait_sentence(CoreWait(118 * MS, 218 * MS)).endswith(
        "(54 %). The categories include this wait."
    )


def test_waiting_for_disks():
    assert machine_sentence(DiskWait(0.2, False, 5 * MIB, 0)) == (
        "The main thread was blocked on a disk for 20 % of the time (the process read 5.00 MiB)."
    )
    both = machine_sentence(DiskWait(0.2, False, 5 * MIB, MIB))
    assert "(the process read 5.00 MiB and wrote 1.00 MiB)" in both
    machine = machine_sentence(DiskWait(0.3, True, None, None))
    assert machine.startswith("All runnable work on the machine waited for a disk for 30 % of")
    assert "is unknown" in machine


def test_a_gpu_that_heat_slows_down():
    assert machine_sentence(Throttled(1, 0.5)) == (
        "GPU 1 was slowed down by heat or a power brake for 50 % of the time: its kernels take "
        "longer than usual."
    )
