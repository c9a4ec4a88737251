"""Which source line holds the thread that drives the loop, sampled from outside by py-spy.

A thread of the job that reads frames needs the interpreter's lock, so it sees the driving thread
where that lets go of the lock, and never where it computes in Python; a watchdog without the lock
(`faulthandler`) can crash the job. py-spy reads the memory of the process from another process:
neither biased by the lock nor able to harm. For two seconds after the traced windows it samples
every 7 ms without pausing the job; the samples are counted and kept as `stacks.json`::

    {"schema", "interval_ns",
     "samples": [{"line": "train.py(12): augment", "leaf": "numpy", "count": 40}, ...]}

`line` is the innermost line of the program's own code, `leaf` the package in which the thread was
('' for the program itself). Paths outside the program's folder are not kept. Where py-spy is
missing or the kernel does not let it look, there is no file.

Source: py-spy's `record --format raw` (stacks as semicolon-separated frames, with a count).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.capture.process_folder import process_id, write_json
from stepwhy.capture.tf1_sources import UserFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

STACKS_FILE = "stacks.json"
SCHEMA = "stepwhy.stacks/1"
# A rate that does not lock onto a step of a round length.
_RATE_HZ = 141
_DURATION_S = 2
_MOST_LINES = 200
_END_S = 5.0  # py-spy ends at once when its process is gone


class StackSamplers:
    """Starts one py-spy per observed process, when its traced windows are over.

    Args:
        run_dir: The run directory.
        command: The command that runs; its script's folder is the program's.
    """

    def __init__(self, run_dir: Path, command: Sequence[str]) -> None:
        self._run_dir = run_dir
        self._files = UserFiles(program_folder(command))
        self._program = find_py_spy()
        self._windows: dict[Path, int] = {}
        self._running: dict[Path, subprocess.Popen[bytes] | None] = {}
        # What py-spy writes has whole paths, so it never lies in the run directory, not even when
        # the launcher is killed.
        self._scratch = tempfile.TemporaryDirectory(prefix="stepwhy-", ignore_cleanup_errors=True)

    def look(self) -> None:
        """Start a sampler for every process whose windows have stopped to grow; never raises."""
        if self._program is None:
            return
        try:
            for folder in self._run_dir.glob("process-*"):
                windows = sum(1 for _ in (folder / "windows").glob("[0-9]*"))
                if windows and windows == self._windows.get(folder) and folder not in self._running:
                    self._running[folder] = self._start(folder)
                self._windows[folder] = windows
        except (OSError, ValueError):
            pass

    def _start(self, folder: Path) -> subprocess.Popen[bytes] | None:
        pid = str(process_id(folder))
        options = ["--format", "raw", "--idle", "--nonblocking", "--threads", "--full-filenames"]
        amount = ["--duration", str(_DURATION_S), "--rate", str(_RATE_HZ)]
        command = [str(self._program), "record", *options, *amount, "--pid", pid]
        try:
            return subprocess.Popen(  # noqa: S603 - py-spy, found beside this interpreter
                [*command, "--output", str(self._raw(folder))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return None

    def _raw(self, folder: Path) -> Path:
        return Path(self._scratch.name) / folder.name

    def finish(self) -> None:
        """Wait for the samplers and keep what they saw; never raises."""
        for folder, sampler in self._running.items():
            try:
                if sampler is not None:
                    sampler.wait(_END_S)
                self._keep(folder)
            except (OSError, subprocess.TimeoutExpired):
                if sampler is not None:
                    sampler.kill()
        self._scratch.cleanup()

    def _keep(self, folder: Path) -> None:
        raw = self._raw(folder)
        if not raw.is_file():
            return
        pid = int(folder.name.removeprefix("process-"))
        counts = count_lines(raw.read_text(errors="replace"), pid, self._files)
        samples = [
            {"line": line, "leaf": leaf, "count": count}
            for (line, leaf), count in counts.most_common(_MOST_LINES)
        ]
        if samples:
            about = {"schema": SCHEMA, "interval_ns": round(1e9 / _RATE_HZ), "samples": samples}
            write_json(folder / STACKS_FILE, about)


def find_py_spy() -> Path | None:
    """The py-spy that was installed with stepwhy, or the one on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    if beside.is_file():
        return beside
    found = shutil.which("py-spy")
    return Path(found) if found else None


def program_folder(command: Sequence[str]) -> str:
    """The folder of the script that a command runs; the current one where it names none."""
    script = next((Path(word) for word in command if word.endswith(".py")), None)
    return str(script.resolve().parent if script is not None else Path.cwd())


# A thread has a name once the program has imported `threading`.
_STACK = re.compile(r"^thread \((?P<id>\d+)\)(?:: [^;]*)?;(?P<frames>.*) (?P<count>\d+)$")
_FRAME = re.compile(r"^(?P<function>.*) \((?P<path>.*):(?P<line>\d+)\)$")
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")


def count_lines(text: str, pid: int, files: UserFiles) -> Counter[tuple[str, str]]:
    """Count samples of the main thread by (line of the program, package of the innermost frame).

    Args:
        text: What py-spy wrote.
        pid: The process; its main thread has the same number.
        files: Tells the program's own files.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for match in filter(None, map(_STACK.match, text.splitlines())):
        frames = [m for m in map(_FRAME.match, match["frames"].split(";")) if m is not None]
        if int(match["id"]) != pid or not frames:
            continue
        own = ((files.user_name(m["path"]), m) for m in reversed(frames))
        line = next((f"{f}({m['line']}): {m['function']}" for f, m in own if f is not None), "")
        counts[line, _leaf(frames[-1]["path"], files)] += int(match["count"])
    return counts


def _leaf(path: str, files: UserFiles) -> str:
    if files.user_name(path) is not None:
        return ""
    found = _PACKAGE.search(path)
    return found[1].removesuffix(".py") if found else "python"
