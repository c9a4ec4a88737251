"""A command under `stepwhy run` inherits the same state and returns the same as without it."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.record.launcher.test_crashes import script, stepwhy_run, until

from stepwhy.record import launch
from stepwhy.record.launcher import launch as launching
from stepwhy.record.launcher.run_directory import plain_environment
from stepwhy.record.sampling import stacks

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 60
STEPWHY = (sys.executable, "-m", "stepwhy", "run")

# State of a program without Python's own settings: signals, limits, files, priority, folder.
_PROBE = """
grep -E '^(Sig(Blk|Ign|Cgt)|NoNewPrivs|Cpus_allowed):' /proc/self/status
cat /proc/self/limits
for file in 0 1 2 3 4 5 6 7 8 9; do readlink /proc/$$/fd/$file || echo none; done
echo "umask $(umask), nice $(nice), in $(pwd), session $(ps -o sid= -p $$)"
cat /proc/self/cgroup
"""


def alone_and_observed(tmp_path: Path, words: list[str], **how: Any) -> list[Any]:
    """Exit code and output of a command, without stepwhy and with it."""
    observed = [*stepwhy_run(tmp_path / "run"), "--", *words]
    options = {"stdout": subprocess.PIPE, "text": True, "timeout": _TIMEOUT_S, **how}
    return [subprocess.run(each, check=False, **options) for each in (words, observed)]


def test_command_inherits_the_state_of_stepwhy(tmp_path: Path) -> None:
    reader, writer = os.pipe()

    def unusual() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGRTMIN})
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 1000))
        os.umask(0o027)
        os.nice(3)

    # The shell resets SIGCHLD, so the signals are read without one.
    for words in (["sh", "-c", _PROBE], ["cat", "/proc/self/status"]):
        alone, observed = alone_and_observed(
            tmp_path / words[0],
            words,
            stdin=reader,
            pass_fds=[reader, writer],
            preexec_fn=unusual,
            process_group=0,
            cwd=tmp_path,
        )
        assert _comparable(observed.stdout) == _comparable(alone.stdout)
        assert observed.returncode == 0
    os.close(reader)
    os.close(writer)


_OF_A_STATUS = ("Sig", "Umask", "Uid", "Gid", "Groups", "NoNew", "Cap", "Secc", "Cpus", "Mems")


def _comparable(text: str) -> list[str]:
    """The lines without values that differ between processes."""
    lines = text.splitlines()
    if lines[0].startswith("Name:"):
        return [line for line in lines if line.startswith(_OF_A_STATUS) and "SigQ" not in line]
    return [line for line in lines if "pipe:" not in line]  # each process has its own, for output


def test_open_files_are_inherited_under_their_numbers(tmp_path: Path) -> None:
    kept = (tmp_path / "kept").open("wb")
    words = ["bash", "-c", f"readlink /proc/$$/fd/{kept.fileno()}; echo to it >&{kept.fileno()}"]
    for done in alone_and_observed(tmp_path, words, pass_fds=[kept.fileno()]):
        assert done.stdout == f"{kept.name}\n"
    kept.close()
    assert (tmp_path / "kept").read_text() == "to it\nto it\n"


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_closed_for_the_command(tmp_path: Path, closed: int) -> None:
    words = ["sh", "-c", f"test -e /proc/$$/fd/{closed}; echo $? > seen; exit 7"]
    for command in (words, [*stepwhy_run(tmp_path / "run"), "--", *words]):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command],
            cwd=tmp_path,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, (tmp_path / "seen").read_text()) == (7, "1\n")


def test_environment_gains_only_variables_of_the_observer(tmp_path: Path) -> None:
    own = {"PATH": os.environ["PATH"], "STEPWHY_TEST": "kept", "HOME": str(tmp_path)}
    alone, observed = alone_and_observed(tmp_path, ["env"], env=own)
    added = set(observed.stdout.splitlines()) - set(alone.stdout.splitlines())
    names = {line.partition("=")[0] for line in added}
    assert names - {"STEPWHY_SAMPLER"} == {"PYTHONPATH", "STEPWHY_RUN_DIR"}


def test_the_locale_that_python_sets_for_itself_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initial = tmp_path / "environ"
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    initial.write_bytes(b"A=1\0LC_CTYPE=C.UTF-8\0")
    assert plain_environment(initial)["LC_CTYPE"] == "C.UTF-8"
    initial.write_bytes(b"A=1\0")
    assert "LC_CTYPE" not in plain_environment(initial)
    assert "LC_CTYPE" in plain_environment(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGINT", "SIGPIPE", "SIGUSR1"])
def test_a_command_that_a_signal_ends_ends_stepwhy_the_same_way(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    words = ["sh", "-c", f"kill -{int(number)} $$"]
    alone, observed = alone_and_observed(tmp_path, words, cwd=tmp_path)
    assert observed.returncode == alone.returncode == -number
    assert not list(tmp_path.glob("core*"))


def test_exit_code_above_128_is_not_a_signal(tmp_path: Path) -> None:
    for done in alone_and_observed(tmp_path, ["sh", "-c", "exit 143"]):
        assert done.returncode == 143


def test_exit_code_is_known_if_the_parent_ignores_its_children(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    observed = [*stepwhy_run(tmp_path / "run"), "--", "sh", "-c", "exit 9"]
    with subprocess.Popen(observed, preexec_fn=ignore) as process:  # noqa: PLW1509 - one thread
        assert process.wait(_TIMEOUT_S) == 9


def test_a_pipe_ends_when_the_command_closes_it(tmp_path: Path) -> None:
    """Not only when the launcher ends, which may be busy explaining."""
    reader, writer = os.pipe()
    release, held = os.pipe()
    words = ["bash", "-c", f"exec >&- {writer}>&-; cat <&{release}; exit 3"]
    observed = [*stepwhy_run(tmp_path / "run"), "--", *words]
    process = subprocess.Popen(
        observed, stdout=subprocess.PIPE, pass_fds=[writer, release], stdin=subprocess.DEVNULL
    )
    for mine in (writer, release):
        os.close(mine)
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert os.read(reader, 1) == b""
    assert process.poll() is None
    os.close(held)
    assert process.wait(_TIMEOUT_S) == 3
    process.stdout.close()
    os.close(reader)


_PIPELINES = {
    "closed": '"$@" 2>&-',
    "full": '"$@" 2>/dev/full',
    "broken": '{ "$@"; echo $? >code; } 2>&1 >out | exec 0<&-; exit $(cat code)',
    "output closed": '"$@" >&-',
    "all closed": '"$@" <&- >&- 2>&-',
    "input closed": '"$@" <&-',
    "without a terminal": 'setsid -w "$@"',
    "background": '"$@" & wait $!',
    "pipeline": '"$@" | cat >out; exit ${PIPESTATUS[0]}',
}


@pytest.mark.parametrize("how", _PIPELINES)
@pytest.mark.parametrize("code", [0, 3])
def test_streams_of_any_kind_do_not_affect_exit_code_and_results(
    tmp_path: Path, how: str, code: int
) -> None:
    body = f"train(30)\nopen('result', 'w').write('whole')\nsys.exit({code})"
    # Where its output is closed, the program alone could not print either.
    body = body.replace("train(30)", "sys.stdout = sys.stdout or open(os.devnull, 'w')\ntrain(30)")
    path = script(tmp_path, body)
    words = [*STEPWHY, "--out", str(tmp_path / "run"), str(path)]
    done = subprocess.run(
        ["bash", "-c", _PIPELINES[how], "bash", *words],
        cwd=tmp_path,
        timeout=_TIMEOUT_S,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert done.returncode == code
    assert (tmp_path / "result").read_text() == "whole"
    assert (tmp_path / "run" / "report.html").exists()


def test_a_report_without_standard_error_goes_into_the_run_directory(tmp_path: Path) -> None:
    path = script(tmp_path, "train(30)")
    words = [*STEPWHY, "--out", str(tmp_path / "run"), str(path)]
    subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *words], timeout=_TIMEOUT_S, check=True)
    assert "per step" in (tmp_path / "run" / "report.txt").read_text()


def blocked_pipe() -> tuple[int, int]:
    """A pipe that is full, so that writing to it waits for a reader."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    return reader, writer


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_the_explanation_at_once(tmp_path: Path, name: str) -> None:
    """The report is blocked here, and a scheduler would soon kill the job."""
    reader, writer = blocked_pipe()
    path = script(tmp_path, "train(30); sys.exit(3)")
    words = [*STEPWHY, "--out", str(tmp_path / "run"), str(path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=writer) as process:
        until((tmp_path / "run" / "report.html").exists)
        process.send_signal(getattr(signal, name))
        # Without an end to the report, it would take two minutes.
        assert process.wait(_TIMEOUT_S) == 3
    os.close(reader)
    os.close(writer)


def test_job_that_was_asked_to_end_explains_for_only_seconds(tmp_path: Path) -> None:
    reader, writer = blocked_pipe()
    code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\ntrain(30)\nsignal.pause()"
    path = script(tmp_path, code)
    words = [*STEPWHY, "--out", str(tmp_path / "run"), str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=writer) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(_TIMEOUT_S) == 3
    os.close(reader)
    os.close(writer)


def test_missing_run_directory_does_not_stop_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = [*STEPWHY, "--out", str(tmp_path / "file" / "run"), "--", "sh", "-c", "echo $$; exit 5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=_TIMEOUT_S)
        assert process.returncode == 5
        assert int(out) == process.pid  # it has replaced the launcher
    assert b"cannot be written" in err
    assert b"runs unobserved" in err


def test_command_that_cannot_start_is_reported_without_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = [*STEPWHY, "--out", str(tmp_path / "file" / "run"), "--", "no-such-program"]
    done = subprocess.run(words, capture_output=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 5
    assert b"'no-such-program' cannot be started" in done.stderr


def test_restarted_job_uses_another_directory(tmp_path: Path) -> None:
    for expected in ("run", "run-2", "run-3"):
        done = subprocess.run(
            [*stepwhy_run(tmp_path / "run"), "--", "true"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        assert (tmp_path / expected / "run.json").exists()
        assert ("already holds a run" in done.stderr) == (expected != "run")


def in_python(code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


def test_the_report_fails_before_the_job_runs_out_of_memory() -> None:
    code = """
from stepwhy.cli import explain_aside
explain_aside._limit_memory(100_000_000)
print(open("/proc/self/oom_score_adj").read().strip())
bytearray(60_000_000)
try:
    bytearray(90_000_000)
except MemoryError:
    print("stopped")
"""
    done = in_python(code)
    assert done.stdout.split() == ["1000", "stopped"], done.stderr


def test_lack_of_memory_is_reported_and_keeps_the_exit_code(tmp_path: Path) -> None:
    code = f"""
from stepwhy.cli import explain_aside
def fail(path, **_):
    raise MemoryError
explain_aside._print_report = fail
explain_aside.main([{str(tmp_path)!r}])
"""
    done = in_python(code)
    assert (done.returncode, done.stdout) == (0, "")
    assert "needs more memory than is left" in done.stderr


@contextlib.contextmanager
def full_disk(folder: Path):
    """A disk with space for only some files of stepwhy, or an equivalent limit."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "stepwhy-test", str(folder)]
    if (
        os.getuid()
        or subprocess.run(mount, capture_output=True, check=False, timeout=240).returncode
    ):
        yield {"preexec_fn": _limit_files}
        return
    try:
        yield {}
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=240)


def _limit_files() -> None:
    # Python would keep modules whose bytecode was cut off.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_disk_that_fills_does_not_fail_the_training(tmp_path: Path) -> None:
    path = script(tmp_path, "train(5000); sys.exit(3)")
    with full_disk(tmp_path / "disk") as limited:
        words = [*STEPWHY, "--out", str(tmp_path / "disk" / "run"), str(path)]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, **limited
        )
    assert (done.returncode, done.stdout) == (3, "trained 5000\n")
    assert "could not be" in done.stderr or "No space left" in done.stderr, done.stderr


def test_a_run_directory_that_vanishes_does_not_fail_the_training(tmp_path: Path) -> None:
    path = script(tmp_path, "import shutil; shutil.rmtree(run_dir); print('done'); sys.exit(3)")
    words = [*STEPWHY, "--out", str(tmp_path / "run"), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (3, "done\n")
    assert "vanished" in done.stderr


@pytest.mark.parametrize("failing", ["StackSamplers", "Run.end", "_messages", "ExitStack.close"])
def test_a_failure_after_the_start_changes_neither_wait_nor_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*about: object, **__: object) -> None:
        if about and isinstance(about[0], contextlib.ExitStack):
            about[0].__exit__(None, None, None)  # no thread may outlive the test
        raise MemoryError("not now")

    where = {
        "StackSamplers": (stacks, "StackSamplers"),
        "Run.end": (launching.Run, "end"),
        "_messages": (launching, "_messages"),
        "ExitStack.close": (contextlib.ExitStack, "close"),
    }
    monkeypatch.setattr(*where[failing], fail)
    ended = launch(["sh", "-c", f"echo ran > '{tmp_path}/mark'; exit 4"], tmp_path / "run")
    assert ended.exit_code == 4
    assert (tmp_path / "mark").read_text() == "ran\n"
    assert any("MemoryError: not now" in message for message in ended.messages)
    if failing != "Run.end":
        assert json.loads((tmp_path / "run" / "run.json").read_text())["exit_code"] == 4
