"""Run programs as children that end with this process, within a time limit."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_GRACE_S = 5.0  # a program under `stepwhy run` writes its last lines when it is asked to end
TURN = "GPU_LAB_TURN"  # file that programs lock; see turn.py
_running: set[subprocess.Popen[str]] = set()
_KEPT = 4000  # characters of output; the ends of tracebacks are in the last lines


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Args:
        code: Exit code; None if it was stopped at the time limit.
        seconds: How long it ran.
        output: Standard output.
        errors: End of standard error.
    """

    code: int | None
    seconds: float
    output: str
    errors: str

    @property
    def failure(self) -> str:
        """Why it is of no use; '' if it succeeded."""
        if self.code is None:
            return f"stopped after {self.seconds:.0f} s"
        last = self.errors.strip().splitlines()[-1:] or [""]
        return f"exit code {self.code}: {last[0]}" if self.code else ""


def stepwhy(*words: str) -> list[str]:
    """Command of stepwhy."""
    return [sys.executable, "-m", "stepwhy", *words]


def variables(more: dict[str, str] | None = None) -> dict[str, str]:
    """Environment in which stepwhy is found: in this clone or bundle, with its dependencies."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folders = [ROOT / "src", ROOT / "site" / version]
    path = [str(folder) for folder in folders if folder.is_dir()]
    before = os.environ.get("PYTHONPATH")
    path += [before] if before else []
    programs = [str(ROOT / "site" / version / "bin"), os.environ.get("PATH", os.defpath)]
    calm = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "PATH": os.pathsep.join(programs),  # a bundle brings py-spy
    }
    return {**os.environ, **calm, **(more or {})}


def run(command: list[str], limit_s: float, more: dict[str, str] | None = None) -> Ended:
    """Run a command and wait for it.

    Args:
        command: The command.
        limit_s: Seconds after which it is stopped.
        more: Environment variables beside the usual ones.
    """
    started = time.monotonic()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=variables(more),
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509 - started from threads that hold no lock
    )
    _running.add(child)
    code: int | None = None
    try:
        output, errors = child.communicate(timeout=max(limit_s, 0.1))
        code = child.returncode
    except subprocess.TimeoutExpired:
        output, errors = _stop(child)
    except BaseException:
        _stop(child)
        raise
    finally:
        _running.discard(child)
    return Ended(code, time.monotonic() - started, output, errors[-_KEPT:])


def stop_all() -> None:
    """Stop the programs that run in other threads, which end then."""
    for child in list(_running):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)


def _stop(child: subprocess.Popen[str]) -> tuple[str, str]:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            return child.communicate(timeout=_GRACE_S)
        except ProcessLookupError:
            return child.communicate()
        except subprocess.TimeoutExpired:
            continue
    return "", ""


def end_with_parent() -> None:
    """End this child when its parent ends; for `preexec_fn`."""
    if _PRCTL is not None:
        _PRCTL(_DIES_WITH_PARENT, signal.SIGTERM)
