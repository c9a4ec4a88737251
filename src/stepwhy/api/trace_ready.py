"""`stepwhy.on_trace_ready()` for `torch.profiler`: keep each trace, and explain the last one.

    with torch.profiler.profile(schedule=..., on_trace_ready=stepwhy.on_trace_ready()) as prof:
        for batch in data:
            train(batch)
            prof.step()

The profiler calls it in the training, at the end of each cycle of its schedule. There it only
writes the trace. When the profiler stops, a process of low priority explains the last cycle, and
the training goes on.

Source: torch/profiler/profiler.py, `profile.stop`, `profile._trace_ready`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import weakref
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any

from stepwhy.base import children, output
from stepwhy.base.redaction.assignments import is_secret_variable
from stepwhy.base.regular_files import read_regular
from stepwhy.base.text import visible
from stepwhy.record.core.process.ranks import place_in_job
from stepwhy.record.launcher.command import RUNS_DIR
from stepwhy.record.torch.trace_file import compress
from stepwhy.show.frame import framed

if TYPE_CHECKING:
    from types import FrameType

_PAGE = "report.html"
_MOST_PAGE = 64 << 20  # bytes; a page has a few megabytes at most
# Calls between `profile.stop` and the handler: two, or a few more under wrappers.
_MOST_CALLS = 12
# A loop of short profilers may begin more than one per second.
_MOST_IN_A_SECOND = 100


class TraceReady:
    """Writes the traces of profilers, and explains the last one of each.

    Args:
        out: The folder to write to; None for a new one.
        quiet: Print no report, only problems.
        reduce: Reduce the last trace of each rank in that rank.
    """

    def __init__(self, out: Path | None, *, quiet: bool, reduce: bool = False) -> None:
        self._out = out.absolute() if out is not None else None
        self._quiet = quiet
        self._reduce = reduce
        self._cycle = 0
        self._pid = os.getpid()
        self._end: weakref.finalize[..., Any] | None = None
        self._explaining: threading.Thread | None = None

    @property
    def folder(self) -> Path | None:
        """Where the traces are, absolute; None before the first one, unless it was chosen."""
        return self._out

    def __call__(self, profiler: Any) -> None:
        """Write the trace of a `torch.profiler.profile`; never raises."""
        try:
            self._write(profiler)
            self._explain_at_the_end(profiler)
        except Exception as error:  # noqa: BLE001 - the training goes on
            _complain("the trace was not written", error)

    def wait(self) -> None:
        """Wait until the last trace is explained."""
        if self._explaining is not None:
            self._explaining.join()

    def _write(self, profiler: Any) -> None:
        """Write the trace of a cycle; it appears when it is complete."""
        if self._out is None:
            self._out = _default_folder()
        self._out.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".part-", dir=self._out))
        try:
            plain = draft / "trace.json"
            profiler.export_chrome_trace(str(plain))
            compress(plain, draft / "trace.json.gz")
            self._cycle += 1
            (draft / "trace.json.gz").replace(self._out / self._name(_rank()))
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _name(self, rank: int | str) -> str:
        """Name of the trace of a rank in this cycle."""
        return f"rank{rank}-cycle{self._cycle}.pt.trace.json.gz"

    def _explain_at_the_end(self, profiler: Any) -> None:
        """Explain when the profiler stops or is freed, or the program exits.

        Only rank 0 explains; the others have nothing to do, or reduce their own trace.
        """
        if _rank() and not self._reduce:
            return
        if self._end is None or not self._end.alive:
            self._end = weakref.finalize(profiler, self._explain)
        if _is_stopping(profiler):
            self._end()
        elif "stop" not in vars(profiler):
            profiler.stop = _then(profiler.stop, self._stopped)

    def _stopped(self) -> None:
        if self._end is not None:
            self._end()

    def _explain(self) -> None:
        """Explain the last cycle, or reduce it, in a background process; never raises."""
        if os.getpid() != self._pid:  # a fork inherits what the end of the program does
            return
        try:
            self._explaining = threading.Thread(target=self._run, name="stepwhy-explain")
            self._explaining.start()
        except RuntimeError:  # the interpreter is shutting down and starts no more threads
            self._run()

    def _run(self) -> None:
        pattern = self._name("*")
        own = [self._name(_rank())] if self._reduce else []
        ranks = 0 if _rank() else _world()
        try:
            done = children.run(
                children.module_command(
                    "stepwhy.engine.present_traces", str(self._out), pattern, str(ranks), *own
                ),
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=PIPE,
                variables={"PYTHONIOENCODING": "utf-8", **_terminal(), **_secrets(self._reduce)},
                check=False,
            )
            report = done.stderr.decode(errors="replace")
            if done.returncode or not self._quiet:
                output.rendered(report)
        except Exception as error:  # noqa: BLE001 - the training goes on
            _complain("the trace was not explained", error)

    def _repr_html_(self) -> str:
        """The report for a notebook, as far as there is one."""
        self.wait()
        try:
            page = (self._out or Path()) / _PAGE
            return framed(read_regular(page, _MOST_PAGE).decode())
        except OSError:
            return "<p>stepwhy: no trace is explained yet</p>"


def on_trace_ready(
    out: str | os.PathLike[str] | None = None, *, quiet: bool = False, reduce: bool = False
) -> TraceReady:
    """A handler for `torch.profiler.profile(on_trace_ready=...)` that explains the trace.

    Each cycle of the schedule becomes a file 'rank<r>-cycle<n>.pt.trace.json.gz' for Perfetto and
    for `stepwhy explain`. When the profiler stops, rank 0 explains the last cycle of all ranks in a
    process of low priority. Nothing is raised into the training.

    Args:
        out: The folder to write to, the same for all ranks; default
            `stepwhy-runs/<time>-torch-profiler`.
        quiet: Print no report, only problems. The page is in the folder all the same.
        reduce: Let each rank reduce its own trace to kilobytes first, for jobs of many ranks: rank
            0 only merges these, and so does `stepwhy explain`.

    Returns:
        The handler, with `folder` and `wait()`. A notebook shows the report.
    """
    return TraceReady(Path(out) if out is not None else None, quiet=quiet, reduce=reduce)


def _then(call: Any, afterwards: Any) -> Any:
    """Wrap a function so that another one runs when it returns or raises."""

    def stop(*arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        finally:
            afterwards()

    return stop


def _is_stopping(profiler: Any) -> bool:
    """Whether this is called by the profiler's `stop`, not between two cycles."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - nothing else tells
    for _ in range(_MOST_CALLS):
        if frame is None:
            return False
        if frame.f_code.co_name == "stop" and frame.f_locals.get("self") is profiler:
            return True
        frame = frame.f_back
    return False


def _default_folder() -> Path:
    """The default folder, absolute: the same for all ranks that one launcher started."""
    started = _launched() if _world() > 1 else None
    begun = (started or datetime.now(UTC)).astimezone()
    path = (Path(RUNS_DIR) / f"{begun:%Y%m%d-%H%M%S}-torch-profiler").absolute()
    if started is not None:
        return path
    names = (path.with_name(f"{path.name}-{n}") for n in range(2, _MOST_IN_A_SECOND))
    return next((one for one in (path, *names) if not one.exists()), path)


def _launched() -> datetime | None:
    """Start time of the parent process, the same for all ranks that it launched.

    Source: proc(5), /proc/pid/stat field 22, and btime of /proc/stat.
    """
    try:
        fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        boot_s = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return datetime.fromtimestamp(boot_s + int(fields[19]) / os.sysconf("SC_CLK_TCK"), UTC)
    except (OSError, ValueError, IndexError, StopIteration, AttributeError):
        return None


def _terminal() -> dict[str, str]:
    """Variables that make a report for the terminal, which the child does not print to itself."""
    if not output.is_watched():
        return {}
    return {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}


def _secrets(is_needed: bool) -> dict[str, str]:
    """Secret variables, whose values are replaced in what is stored of a trace."""
    return {n: v for n, v in os.environ.items() if is_needed and is_secret_variable(n)}


def _rank() -> int:
    return place_in_job()[0] or 0


def _world() -> int:
    return max(place_in_job()[1] or 1, 1)


def _complain(what: str, error: Exception) -> None:
    """Print one line about a problem."""
    output.line(f"stepwhy: {what}: {visible(f'{type(error).__name__}: {error}')}")
