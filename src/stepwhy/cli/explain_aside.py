"""The explanation at the end of `stepwhy run`, or the part of it that a rank does itself.

It is a separate process. It must not affect how the finished training ended: a crash, a lack of
memory or a report that takes too long ends only that process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base import children, output
from stepwhy.base.text import visible
from stepwhy.base.whole_files import create
from stepwhy.record.launcher.child import Child, wait_for
from stepwhy.record.launcher.signals import ENDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from stepwhy.record import Launch
    from stepwhy.record.launcher.proxy import CommandProxy
    from stepwhy.record.launcher.signals import Received

REPORT_FILE = "report.txt"
_LONGEST_S = 120.0
# A scheduler that asks a job to end kills it 10 s (docker stop) to 30 s (SLURM, Kubernetes) later.
_LONGEST_AFTER_REQUEST_S = 5.0
_MODULE = "stepwhy.cli.explain_aside"
# Share of the free memory; the launcher and the page cache need some, too.
_SHARE_OF_MEMORY = 0.8
_MOST_EXPENDABLE = "1000"
_SILENT = "--silent-without-traces"
_REDUCE = "--reduce"
_MOST_NAMED = 5


def explain_aside(launched: Launch, proxy: CommandProxy, words: Sequence[str] = ()) -> None:
    """Print the report of a finished run and write its page. Never raises.

    Stops after two minutes, as soon as a signal asks this process to end, and five seconds after
    such a signal that arrived while the command ran.

    Args:
        launched: The run.
        proxy: The proxy of its command.
        words: Its command.
    """
    silent = [_SILENT] * bool(launched.messages)
    why = _do_in_time(launched, proxy, "report", [*silent, "--", *words])
    if why:
        proxy.print_error(f"stepwhy: {why}. To make it: stepwhy explain {launched.run_dir}")


def reduce_aside(launched: Launch, proxy: CommandProxy) -> None:
    """Reduce the ranks of a finished run to a file in its directory. Never raises.

    It stops as `explain_aside` does. Without the file, the traces themselves are explained.

    Args:
        launched: The run.
        proxy: The proxy of its command.
    """
    why = _do_in_time(launched, proxy, "summary", [_REDUCE])
    if why:
        proxy.print_error(f"stepwhy: {why}. 'stepwhy explain' will read the traces instead")


def _do_in_time(launched: Launch, proxy: CommandProxy, what: str, arguments: Sequence[str]) -> str:
    """Do the work in another process, and return why it was not done; '' if it was."""
    started_s = time.monotonic()
    deadline_s = started_s + _LONGEST_S
    if launched.asked_to_end_s is not None:
        deadline_s = min(deadline_s, launched.asked_to_end_s + _LONGEST_AFTER_REQUEST_S)
    try:
        if deadline_s > started_s:
            return _done(launched, proxy, what, arguments, deadline_s)
    except Exception as error:  # noqa: BLE001 - must not affect the exit of the training
        return f"the {what} could not be made: {type(error).__name__}: {error}"
    return f"there is no time left for the {what}"


def _done(
    launched: Launch,
    proxy: CommandProxy,
    what: str,
    arguments: Sequence[str],
    deadline_s: float,
) -> str:
    """As `_do_in_time`, without the failures to start it."""
    requests: list[int] = []

    def receive(received: Received) -> None:
        if received.number in ENDING:
            requests.append(received.number)
            process.kill()
        else:
            child.receive(received)

    with _stderr(launched, proxy) as streams:
        process = children.start(
            children.module_command(_MODULE, str(launched.run_dir), *arguments),
            variables=_secrets() if _REDUCE in arguments else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            **streams,
        )
    child = Child(process)
    code = wait_for(child, proxy.signals, receive, deadline_s)
    if code is None:
        process.kill()
        process.wait()
        return f"the {what} took too long"
    if requests or -code in ENDING:
        return f"the {what} was interrupted"
    return f"the {what} could not be made (signal {-code})" if code < 0 else ""


def _secrets() -> dict[str, str]:
    """Secret variables, whose values are replaced in what is stored of a trace."""
    from stepwhy.base.redaction.assignments import is_secret_variable

    return {name: value for name, value in os.environ.items() if is_secret_variable(name)}


@contextlib.contextmanager
def _stderr(launched: Launch, proxy: CommandProxy) -> Iterator[dict[str, Any]]:
    """Output of the report: standard error, or a file in the run directory without one."""
    if proxy.has_stderr:
        yield {}
        return
    with create(launched.run_dir / REPORT_FILE) as file:
        yield {"stderr": file}


def main(arguments: list[str]) -> None:
    """Explain a run on standard error; print failures in one line.

    Args:
        arguments: The run directory; `_REDUCE` to reduce its ranks instead; `_SILENT` to print
            nothing if nothing was recorded; '--' and the command.
    """
    # The parent has blocked all signals; here, any signal may end the report.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    output.guard()
    try:
        ours, command = arguments, []
        if "--" in arguments:
            end = arguments.index("--")
            ours, command = arguments[:end], arguments[end + 1 :]
        if _REDUCE in ours:
            _reduce(Path(ours[0]))
        else:
            _print_report(Path(ours[0]), is_silent=_SILENT in ours, command=command)
    except MemoryError:
        text = "the report needs more memory than is left on this machine"
        output.line(f"stepwhy: {text}. On a larger machine: stepwhy explain DIR")
    except OSError as error:
        output.line(f"stepwhy: the report could not be written: {error.strerror}")
    except Exception as error:  # noqa: BLE001 - must not affect the exit of the training
        output.line(f"stepwhy: the explanation failed: {type(error).__name__}: {error}")


def _reduce(run_dir: Path) -> None:
    """Reduce the ranks of a run; say why if they cannot be."""
    from stepwhy.cli.numpy_import import import_numpy_without_threads

    import_numpy_without_threads()
    from stepwhy.base.errors import StepwhyError
    from stepwhy.engine.reduced_files import reduce_in_place
    from stepwhy.read.inputs.memory import available_bytes

    _limit_memory(available_bytes())
    try:
        reduce_in_place(run_dir)
    except StepwhyError as error:
        output.line(f"stepwhy: {error} [{error.slug}]")


def _print_report(path: Path, *, is_silent: bool, command: Sequence[str] = ()) -> None:
    """Explain the run and show it."""
    from stepwhy.cli.numpy_import import import_numpy_without_threads

    import_numpy_without_threads()
    from stepwhy.base.errors import NoTracesError, StepwhyError
    from stepwhy.cli import note_on_kernels
    from stepwhy.cli.progress import progress
    from stepwhy.engine.present import as_seen_from_here, show
    from stepwhy.engine.timeline import explain_with_timeline
    from stepwhy.read.inputs.memory import available_bytes
    from stepwhy.show import words
    from stepwhy.show.console import Console

    _limit_memory(available_bytes())
    run_dir = as_seen_from_here(path)
    try:
        with progress([str(run_dir)]) as report:
            result, timeline = explain_with_timeline([str(run_dir)], report)
        show(result, run_dir, Console(stderr=True), timeline)
        if words.are_lone_runs(result) and (traces := _written(run_dir, command)):
            _say(f"{_named(traces)}. To explain it: stepwhy explain {traces[0]}")
    except NoTracesError as error:
        if not is_silent:
            output.line(f"stepwhy: {error} [{error.slug}]")
        _explain_written(run_dir, command)
    except StepwhyError as error:
        output.line(f"stepwhy: {error} [{error.slug}]")
    finally:
        note_on_kernels()


def _written(run_dir: Path, command: Sequence[str]) -> list[Path]:
    """The trace files that the program of a command wrote, the last one first."""
    from stepwhy.cli.written_traces import folders_of, written_traces
    from stepwhy.read.formats.run_directory.files import read_run_file

    started_ns = read_run_file(run_dir).started_ns
    return [] if started_ns is None else written_traces(folders_of(command), started_ns)


def _named(paths: Sequence[Path]) -> str:
    """That the program wrote traces, with their names."""
    what = "a trace" if len(paths) == 1 else f"{len(paths)} traces, the last one first"
    more = ", ..." if len(paths) > _MOST_NAMED else ""
    return f"the program wrote {what}: {', '.join(map(str, paths[:_MOST_NAMED]))}{more}"


def _say(text: str) -> None:
    output.line(visible(output.public(f"stepwhy: {text}")))


def _explain_written(run_dir: Path, command: Sequence[str]) -> None:
    """Report what a program without a loop recorded itself: the last of its traces, if any."""
    from stepwhy.base.errors import StepwhyError
    from stepwhy.engine.present import show
    from stepwhy.engine.timeline import explain_with_timeline
    from stepwhy.show.console import Console

    try:
        traces = _written(run_dir, command)
        if traces:
            _say(f"{_named(traces)}. The report is of {traces[0].name}")
            result, timeline = explain_with_timeline([str(traces[0])])
            show(result, run_dir, Console(stderr=True), timeline, again=traces[0])
    except StepwhyError as error:
        _say(f"{error} [{error.slug}]")


def _limit_memory(left_bytes: int | None) -> None:
    """Limit memory, so that this process fails before the kernel or scheduler kills the job.

    Args:
        left_bytes: Memory that the job may still allocate; None if unknown.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_MOST_EXPENDABLE)
    if left_bytes is None:
        return
    from stepwhy.read.inputs.memory import data_bytes

    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = data_bytes() + int(left_bytes * _SHARE_OF_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    main(sys.argv[1:])
