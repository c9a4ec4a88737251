"""The machine during a run, from samples computed by hand."""

from __future__ import annotations

from tests.analyse.timeline import SharedMachine

from stepwhy.analyse.answers.host_load import described_load, host_load
from stepwhy.analyse.answers.host_notes import core_contention
from stepwhy.analyse.facts import Facts
from stepwhy.result import HostLoad
from stepwhy.trace import Meta, TraceBuilder

S = 1_000_000_000


def trace(**series):
    builder = TraceBuilder()
    for name, values in series.items():
        for second, value in enumerate(values):
            builder.add("counters", time_ns=second * S, name=builder.intern(name), value=value)
    return builder.finish(Meta("step-log"))


def test_shares_and_background():
    # In 2 s the process ran 1.5 s and waited 0.5 s; of 2 cores 3 s were busy, 2 s by the job.
    load = host_load(
        trace(
            cpu_ns=[5 * S, 6 * S, 13 * S // 2],
            run_delay_ns=[S, S, 3 * S // 2],
            machine_busy_ns=[100 * S, 102 * S, 103 * S],
            job_cpu_ns=[10 * S, 11 * S, 12 * S],
            cores=[2, 2, 2],
            resident_bytes=[10, 30, 20],
        )
    )
    assert load == HostLoad(
        run_delay_share=0.25,
        background_cores=0.5,
        cores=2,
        peak_resident_bytes=30,
        runnable_threads=1.0,
    )


def test_nothing_sampled():
    assert host_load(trace()) is None


def test_the_observer_is_no_background():
    used = {"machine_busy_ns": [0, 4 * S, 8 * S], "job_cpu_ns": [0, 2 * S, 4 * S]}
    assert host_load(trace(cpu_ns=[0, S, S], **used)).background_cores == 2.0
    seen = host_load(trace(cpu_ns=[0, S, S], **used, observer_cpu_ns=[0, S, 3 * S]))
    assert seen.background_cores == 0.5


def test_one_sample_shows_no_growth():
    load = host_load(trace(cpu_ns=[S], run_delay_ns=[S], resident_bytes=[7]))
    assert load == HostLoad(None, None, None, 7)


def test_an_idle_process_waits_for_nothing():
    assert host_load(trace(cpu_ns=[S, S], run_delay_ns=[S, S])) == HostLoad(None, None, None, None)


def test_disks():
    load = host_load(
        trace(
            disk_wait_ns=[0, S // 2, S],
            disk_read_bytes=[100, 300, 600],
            disk_written_bytes=[7, 7, 7],
            machine_disk_stall_ns=[5 * S, 5 * S, 5 * S + S // 2],
        )
    )
    assert load == HostLoad(
        *(None,) * 4,
        disk_wait_share=0.5,
        disk_read_bytes=500,
        disk_written_bytes=0,
        machine_disk_stall_share=0.25,
    )


def test_what_the_kernel_did_not_tell_of_disks_is_missing():
    load = host_load(trace(cpu_ns=[0, S], run_delay_ns=[0, 0]))
    assert (load.disk_wait_share, load.disk_read_bytes, load.machine_disk_stall_share) == (
        None,
        None,
        None,
    )


def test_the_load_during_the_described_steps():
    run = SharedMachine().work(120, 40, waiting=0.75, traced=(20, 21)).work(400, 10)
    facts = Facts(run.trace())
    whole, described = host_load(facts.sampled), described_load(facts)
    assert whole.run_delay_share > 0.3
    assert (described.run_delay_share, described.background_cores) == (0.0, 0.0)
    assert core_contention(whole) is not None
    assert core_contention(described) is None


def test_the_load_of_a_run_whose_steps_are_alike():
    facts = Facts(SharedMachine().work(200, 40, waiting=0.75, traced=(20, 21)).trace())
    assert described_load(facts) == host_load(facts.sampled)
    assert described_load(Facts(trace())) is None
