"""The driving thread, and the threads that run backward operations for it."""

from tests.analyse.timeline import Timeline

from stepwhy.analyse.activity.threads import find_threads
from stepwhy.trace import Kind, Phase


def test_a_marker_settles_it():
    line = Timeline()
    main, busy = line.thread("main"), line.thread("busy")
    line.add(busy, Kind.OP, 0, 1000)
    line.add(busy, Kind.INPUT, 0, 500)
    line.steps(0, 1, track=main)
    assert find_threads(line.trace()).driving == main


def test_then_the_thread_that_fetches_batches():
    line = Timeline()
    main, busy = line.thread("main"), line.thread("busy")
    line.add(busy, Kind.OP, 0, 1000)
    line.add(main, Kind.INPUT, 0, 1)
    assert find_threads(line.trace()).driving == main


def test_then_the_thread_with_most_time_in_framework_calls():
    line = Timeline()
    main, other = line.thread("main"), line.thread("other")
    line.add(main, Kind.OP, 0, 5)
    line.add(other, Kind.OP, 0, 9)
    assert find_threads(line.trace()).driving == other


def test_device_streams_never_drive():
    line = Timeline()
    line.add(line.stream(), Kind.KERNEL, 0, 1000)
    threads = find_threads(line.trace())
    assert (threads.driving, threads.all) == (-1, ())


def test_a_thread_that_only_names_ranges_does_not_drive():
    line = Timeline()
    line.add(line.thread(), Kind.ANNOTATION, 0, 1000)
    assert find_threads(line.trace()).driving == -1


def test_autograd_threads_run_backward_operations_in_the_same_process():
    line = Timeline()
    main, autograd = line.thread("main"), line.thread("autograd")
    pool, stranger = line.thread("pool"), line.thread("autograd", process=2)
    line.steps(0, 10, track=main)
    for track in (main, autograd, stranger):
        line.add(track, Kind.OP, 1, 2, phase=int(Phase.BACKWARD))
    line.add(pool, Kind.OP, 1, 2)
    threads = find_threads(line.trace())
    assert threads.driving == main
    assert threads.autograd == (autograd,)
    assert threads.all == (main, autograd)


def test_the_autograd_thread_does_not_drive_although_it_works_longest():
    line = Timeline()
    main, autograd = line.thread("main"), line.thread("autograd")
    line.add(main, Kind.OP, 0, 5)
    line.add(autograd, Kind.OP, 5, 20, phase=int(Phase.BACKWARD))
    line.add(autograd, Kind.OP, 6, 19)
    threads = find_threads(line.trace())
    assert (threads.driving, threads.autograd) == (main, (autograd,))


def test_a_lone_thread_of_backward_operations_drives():
    line = Timeline()
    line.add(line.thread(), Kind.OP, 0, 5, phase=int(Phase.BACKWARD))
    assert find_threads(line.trace()).driving == line.thread()


def test_a_thread_that_prepares_batches_ahead_does_not_drive():
    line = Timeline()
    main, loader = line.thread("main"), line.thread("loader")
    line.launch((0, 1), (1, 3), 1, track=main)
    line.add(loader, Kind.INPUT, 0, 500)
    assert find_threads(line.trace()).driving == main


def test_calls_of_the_device_api_stand_for_backward_operations_that_were_not_recorded():
    line = Timeline()
    main, autograd = line.thread("main"), line.thread("autograd")
    line.add(main, Kind.LAUNCH, 0, 5)
    line.add(autograd, Kind.LAUNCH, 5, 20, phase=int(Phase.BACKWARD))
    line.add(autograd, Kind.SYNC, 30, 40, phase=int(Phase.BACKWARD))
    threads = find_threads(line.trace())
    assert (threads.driving, threads.autograd) == (main, (autograd,))
