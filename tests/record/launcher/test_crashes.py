"""Trainings that crash behave as without stepwhy, and their logs are explained.

The programs log their steps themselves, as the observer would. Each is run alone and under
`stepwhy run`, and must have the same output and end in the same way.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.base.errors import NoTracesError
from stepwhy.engine import explain
from stepwhy.show.json import render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TIMEOUT_S = 120

_PROGRAM = """
import multiprocessing.util, os, signal, sys, threading, time
run_dir = os.environ.get("STEPWHY_RUN_DIR")
if run_dir:
    from stepwhy.record.core.clock import now_ns
    from stepwhy.record.core.recorder import Recorder
    recorder = Recorder(run_dir, "pytorch", "2.0", "torch-optimizer")

def log_of_process():
    return f"{run_dir}/process-{os.getpid()}/steps.jsonl"

def train(steps=1200):
    for n in range(steps):
        if run_dir:
            start_ns = now_ns()
            recorder.step(
                f'{{"kind":"step","start_ns":{start_ns},"end_ns":{start_ns + 900},"profiled":0}}'
            )
    print("trained", steps, flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended, with the exit code of a shell."""

    code: int
    out: str
    err: str


def script(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "train.py"
    path.write_text(_PROGRAM + body)
    return path


def observed(path: Path, run_dir: Path) -> list[str]:
    return [*stepwhy_run(run_dir), str(path)]


def stepwhy_run(run_dir: Path) -> list[str]:
    return [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(run_dir)]


def ended(command: list[str], **more: Any) -> Ended:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, **more
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Ended(code, done.stdout, done.stderr)


def both(tmp_path: Path, body: str, **more: Any) -> tuple[Ended, Ended]:
    """The end of the program alone and observed, which must be equal."""
    path = script(tmp_path, body)
    alone = ended([sys.executable, str(path)], **more)
    watched = ended(observed(path, tmp_path / "run"), **more)
    assert (watched.code, watched.out) == (alone.code, alone.out)
    own = [line for line in watched.err.splitlines() if not line.startswith("stepwhy: ")]
    assert own == alone.err.splitlines()
    return alone, watched


def explained(run_dir: Path) -> dict[str, Any]:
    """Output of `stepwhy explain DIR --json`."""
    result: dict[str, Any] = json.loads(render(explain([str(run_dir)])))
    return result


def noted(result: dict[str, Any], text: str) -> bool:
    return any(text in note for note in result["notes"])


@pytest.mark.parametrize(
    ("body", "code", "note"),
    [
        ("train(); os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed"),
        ("train(); os.kill(os.getpid(), signal.SIGTERM)", 143, "ended by SIGTERM"),
        ("train(); os.abort()", 134, "ended by SIGABRT"),
        ("train(); raise RuntimeError('loss is nan')", 1, "ended with exit code 1"),
        ("train(); sys.exit(3)", 3, "ended with exit code 3"),
        ("train(); os._exit(4)", 4, "ended with exit code 4"),
    ],
)
def test_any_end_is_that_of_the_training(tmp_path: Path, body: str, code: int, note: str) -> None:
    alone, _ = both(tmp_path, body)
    assert alone.code == code
    result = explained(tmp_path / "run")
    # A kill loses unwritten lines: half a second, or 512 steps.
    assert 1200 - 512 < result["steps"]["count"] <= 1200
    assert note in result["notes"][0]
    assert result["run"]["ending"] == result["notes"][0]
    assert result["run"]["exit_code"] == code
    assert result["run"]["exception"] == ("RuntimeError" if "raise" in body else "")
    assert "loss is nan" not in json.dumps(result)


_EARLY = """
if run_dir:
    for n in range(60):
        time.sleep(0.005)
        train(1)
os.kill(os.getpid(), signal.{})
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT"])
def test_a_short_run_that_is_killed_keeps_its_steps(tmp_path: Path, name: str) -> None:
    path = script(tmp_path, _EARLY.format(name))
    watched = ended(observed(path, tmp_path / "run"))
    assert watched.code == 128 + getattr(signal, name)
    assert "before it trained" not in watched.err
    # Pending is what ended in the last 10 ms, or in the last thirtieth of the run.
    assert 50 <= explained(tmp_path / "run")["steps"]["count"] <= 60


_IN_WINDOW = """
def fill(folder):
    (folder / "trace.json").write_text("private")
    os.kill(os.getpid(), signal.SIGKILL)

train()
if run_dir:
    recorder.window({"kind": "k"}, fill)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_during_a_window_leaves_no_window(tmp_path: Path) -> None:
    both(tmp_path, _IN_WINDOW)
    (windows,) = (tmp_path / "run").glob("process-*/windows")
    assert list(windows.iterdir()) == []
    # Pending lines are written before a window.
    assert explained(tmp_path / "run")["steps"]["count"] == 1200


_BOTH_KILLED = """
def fill(folder):
    (folder / "trace.json").write_text("half a trace")
    print("ready", flush=True)
    sys.stdin.readline()

train()
recorder.window({"kind": "k"}, fill)
"""


def test_unfinished_window_after_killing_both_is_reported(tmp_path: Path) -> None:
    path = script(tmp_path, _BOTH_KILLED)
    with subprocess.Popen(
        observed(path, tmp_path / "run"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "trained 1200\n"
        assert launcher.stdout.readline() == "ready\n"
        os.killpg(launcher.pid, signal.SIGKILL)
        assert launcher.stdout.read() == ""  # both have ended
    result = explained(tmp_path / "run")
    assert result["steps"]["count"] == 1200
    assert noted(result, "A traced window was left unfinished and is ignored")
    # It may take a moment until the kernel no longer lists it.
    assert noted(result, "no recorded end") or noted(result, "still going")
    assert "the run ended while the first of them were being traced" in json.dumps(result)


_NO_MEMORY = """
import resource
train()
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
try:
    bytearray(1 << 40)
except MemoryError:
    print("no memory")
train()
bytearray(1 << 40)
"""


def test_out_of_memory_is_reported_for_the_training(tmp_path: Path) -> None:
    alone, _ = both(tmp_path, _NO_MEMORY)
    assert alone.err.endswith("MemoryError\n")
    assert explained(tmp_path / "run")["steps"]["count"] == 2400


_DISK_FULL = """
train()
if run_dir:
    from stepwhy.record.core.process import folder
    opened = folder.open_regular
    def full_for_steps(path, *how):
        is_full = str(path) == log_of_process()
        return os.open("/dev/full", os.O_WRONLY) if is_full else opened(path, *how)
    folder.open_regular = full_for_steps
train()
"""

_FILE_LIMIT = """
import resource
train()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # it would be cut off, and kept
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
train(5000)
"""

_READ_ONLY = """
train()
if run_dir:
    recorder.close()
    os.chmod(log_of_process(), 0o444)
    os.chmod(os.path.dirname(log_of_process()), 0o555)
if os.geteuid() == 0:
    os.setuid(65534)
train()
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [(_DISK_FULL, "No space left on device"), (_FILE_LIMIT, "File too large")],
)
def test_log_that_cannot_grow_only_ends_the_observation(
    tmp_path: Path, body: str, reason: str
) -> None:
    _, watched = both(tmp_path, body)
    assert f"could not be written ({reason})" in watched.err
    result = explained(tmp_path / "run")
    assert 500 < result["steps"]["count"] < 2400
    assert noted(result, reason)


_NO_ROOM = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # it would be cut off, and kept
resource.setrlimit(resource.RLIMIT_FSIZE, (120, 120))
train()
"""


def test_log_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    _, watched = both(tmp_path, _NO_ROOM)
    text = "1 training step was seen, but none was logged: the run directory could not be written"
    assert f"stepwhy: {text} (File too large). Free some space" in watched.err
    with pytest.raises(NoTracesError, match=text):
        explained(tmp_path / "run")


def test_read_only_directory_only_ends_the_observation(tmp_path: Path) -> None:
    both(tmp_path, _READ_ONLY)
    folder = next((tmp_path / "run").glob("process-*"))
    folder.chmod(0o755)
    assert explained(tmp_path / "run")["steps"]["count"] == 1200


_REMOVED = """
import shutil
train()
if run_dir:
    shutil.rmtree(run_dir)
train()
"""

_REPLACED = """
import shutil
train()
if run_dir:
    shutil.rmtree(run_dir)
    open(run_dir, "w").close()
train()
"""


@pytest.mark.parametrize("body", [_REMOVED, _REPLACED])
def test_removed_run_directory_only_ends_the_observation(tmp_path: Path, body: str) -> None:
    _, watched = both(tmp_path, body)
    assert "the run directory vanished while the training ran" in watched.err
    assert not (tmp_path / "run").is_dir()


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_stay_closed(tmp_path: Path, redirection: str) -> None:
    path = script(tmp_path, "train()\nraise SystemExit(int(sys.stdout is None) + 5)")

    def run(command: list[str]) -> Ended:
        return ended(["sh", "-c", f'exec "$@" {redirection}', "sh", *command])

    alone, watched = run([sys.executable, str(path)]), run(observed(path, tmp_path / "run"))
    assert (watched.code, watched.out) == (alone.code, alone.out)
    assert explained(tmp_path / "run")["steps"]["count"] == 1200


_BROKEN_PIPE = """
print("first", flush=True)
sys.stdin.readline()
train()
"""


def test_closed_reader_breaks_the_pipe_as_without_stepwhy(tmp_path: Path) -> None:
    path = script(tmp_path, _BROKEN_PIPE)

    def run(command: list[str]) -> tuple[int, str]:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "first\n"
            process.stdout.close()
            process.stdin.close()
            err = process.stderr.read()
            return process.wait(_TIMEOUT_S), err

    alone, watched = run([sys.executable, str(path)]), run(observed(path, tmp_path / "run"))
    assert watched == alone
    assert "BrokenPipeError" in alone[1]
    assert explained(tmp_path / "run")["steps"]["count"] == 1200


_ORPHAN = """
train()
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
train()
print("done", flush=True)
"""


def test_the_training_outlives_a_killed_launcher(tmp_path: Path) -> None:
    path = script(tmp_path, _ORPHAN)
    with subprocess.Popen(
        observed(path, tmp_path / "run"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "trained 1200\n"
        assert launcher.stdout.readline().startswith("ready ")
        launcher.kill()
        launcher.wait(_TIMEOUT_S)
        launcher.stdin.write("\n")
        launcher.stdin.flush()
        assert launcher.stdout.read() == "trained 1200\ndone\n"
    result = explained(tmp_path / "run")
    assert result["steps"]["count"] >= 2400 - 512
    assert noted(result, "no recorded end") or noted(result, "still going")


_FORK = """
train(10)
child = os.fork()
if not child:
    train(20)
    sys.exit(0)
os.waitpid(child, 0)
train(20)
"""

_WORKERS = """
import multiprocessing
if __name__ == "__main__":
    train(20)
    context = multiprocessing.get_context("{method}")
    for n in (5, 6):
        worker = context.Process(target=train, args=(n,))
        worker.start()
        worker.join()
"""

_EXEC = """
train(30)
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, __file__, "again"])
"""


def counts(run_dir: Path) -> list[int]:
    """Lines in the logs of the processes."""
    return sorted(len(log.read_text().splitlines()) for log in run_dir.glob("*/steps.jsonl"))


def test_a_fork_logs_into_a_folder_of_its_own(tmp_path: Path) -> None:
    both(tmp_path, _FORK)
    assert counts(tmp_path / "run") == [20, 30]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_log_into_folders_of_their_own(tmp_path: Path, method: str) -> None:
    both(tmp_path, _WORKERS.format(method=method))
    assert counts(tmp_path / "run") == [5, 6, 20]


def test_a_program_that_replaces_itself_does_not_mix_its_logs(tmp_path: Path) -> None:
    both(tmp_path, _EXEC)
    run = tmp_path / "run"
    names = sorted(path.name for path in run.glob("process-*"))
    assert len(names) == 2
    assert names[1] == f"{names[0]}.2"
    assert len((run / names[1] / "steps.jsonl").read_text().splitlines()) == 30
    assert noted(explained(run), "Other observed processes")


_CLOSE_ALL = """
train(600)
os.closerange(3, 256)
own = open("own.txt", "w")
train(600)
own.write("mine")
own.close()
"""


def test_files_of_the_training_are_not_written_to(tmp_path: Path) -> None:
    both(tmp_path, _CLOSE_ALL, cwd=tmp_path)
    assert (tmp_path / "own.txt").read_text() == "mine"
    assert explained(tmp_path / "run")["steps"]["count"] == 1200


_DAEMON_THREAD = """
def forever():
    while True:
        if run_dir:
            recorder.step('{"kind":"step","start_ns":1,"end_ns":2,"profiled":0}')
train()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
"""


def test_thread_that_trains_while_the_interpreter_ends(tmp_path: Path) -> None:
    alone, _ = both(tmp_path, _DAEMON_THREAD)
    assert (alone.code, alone.err) == (0, "")
    assert explained(tmp_path / "run")["steps"]["count"] >= 1200


_INTERRUPTED = """
train()
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
    train()
    raise
"""


def in_terminal(command: list[str]) -> tuple[int, str]:
    """Exit code and output of a command that is ended by the interrupt key of its terminal."""
    ours, theirs = pty.openpty()

    # The key would discard unread output.
    attributes = termios.tcgetattr(theirs)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - the tests start no threads
    ) as process:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # reading a terminal without another end is an error
            while select.select([ours], [], [], _TIMEOUT_S)[0] and (chunk := os.read(ours, 4096)):
                text += chunk
                if text.endswith(b"ready\r\n"):
                    os.write(ours, b"\x03")
        code = process.wait(_TIMEOUT_S)
    os.close(ours)
    return code if code >= 0 else 128 - code, text.decode()


def test_the_interrupt_key_of_a_terminal_reaches_the_training_once(tmp_path: Path) -> None:
    path = script(tmp_path, _INTERRUPTED)
    alone = in_terminal([sys.executable, str(path)])
    assert in_terminal(observed(path, tmp_path / "run")) == alone
    assert alone[0] == 130
    assert alone[1].count("interrupted") == 1
    result = explained(tmp_path / "run")
    assert result["steps"]["count"] == 2400
    assert noted(result, "ended by SIGINT")


_DAEMON = """
if os.fork():
    sys.exit(0)
os.setsid()
if os.fork():
    os._exit(0)
null = os.open(os.devnull, os.O_RDWR)
for stream in range(3):
    os.dup2(null, stream)
sys.stdout = open(os.devnull, "w")
with open("wait") as gate:
    gate.read()
train()
open("done.tmp", "w").close()
os.rename("done.tmp", "done")
"""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_daemon_that_outlives_the_command_is_explained_later(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "wait")
    path = script(tmp_path, _DAEMON)
    watched = ended(observed(path, tmp_path / "run"), cwd=tmp_path)
    assert (watched.code, watched.out) == (0, "")
    assert "still run" in watched.err
    (tmp_path / "wait").write_text("go")
    until((tmp_path / "done").exists)
    assert explained(tmp_path / "run")["steps"]["count"] >= 1200 - 512


_TORCH = """
import os, signal, sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(64, 64)
for step in range(10_000):
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    if step == int(sys.argv[2]):
        print(f"{loss.item():.6f}", flush=True)
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.framework
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_real_training_ends_as_without_stepwhy(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "train.py"
    path.write_text(_TORCH)
    alone = ended([sys.executable, str(path), name, "1200"])
    watched = ended([*observed(path, tmp_path / "run"), name, "1200"])
    assert (watched.code, watched.out) == (alone.code, alone.out)
    result = explained(tmp_path / "run")
    assert result["steps"]["count"] > 500
    assert noted(result, "killed" if name == "SIGKILL" else "SIGINT")
    assert sum(result["breakdown"]["categories"].values()) == result["breakdown"]["wall_ns"]


@pytest.mark.framework
@pytest.mark.parametrize(("name", "steps"), [("SIGKILL", 40), ("SIGSEGV", 1)])
def test_a_training_that_is_killed_early_has_trained(tmp_path: Path, name: str, steps: int) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "train.py"
    path.write_text(
        _TORCH.replace("    loss.backward()\n", "    loss.backward(); time.sleep(0.02)\n")
    )
    path.write_text(f"import time{path.read_text()}")
    watched = ended([*observed(path, tmp_path / "run"), name, str(steps)])
    assert watched.code == 128 + getattr(signal, name)
    assert "before it trained" not in watched.err
    if steps > 1:
        assert explained(tmp_path / "run")["steps"]["count"] > 10
    else:
        assert f"{name} ended the command after at least 1 step" in watched.err
