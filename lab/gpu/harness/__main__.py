"""Run the GPU lab: see docs/how-to/run-the-gpu-lab.md. Needs only Python's standard library.

Programs run with the Python that runs this, with its PyTorch and JAX. Every result is written as
soon as it is there; --missing goes on after an interruption.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import itertools
import json
import os
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bundle
from children import ROOT, TURN, Ended, run, stepwhy, stop_all
from clocks import Clocks, query
from environment import environment
from pairs import FOLDER, SIDES, Pair, pairs, printed
from points import answers, facts
from run_evidence import evidence
from sizes import SIZES, Peaks
from slim import reduce
from store import Store, size_of, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
# Those whose faults are expected to show best come first.
_FIRST = (
    "pageable_copy", "fp32_head", "loop_optimizer", "naive_attention", "item_sync",
    "launch_bound", "empty_cache", "launch_blocking", "jax_recompile", "jax_transfer",
)  # fmt: skip
_BEFORE_TRIALS = 4  # pairs; the others follow the trials
_TRIAL_S = 90  # for one fix
_BESIDE = 4  # programs that start beside each other, and take turns on the GPU
_CORES_EACH = 4
_ROUNDS = 5  # of the pairs, if the budget allows
_OVERHEAD_ROUNDS = 3
_LIVE_RUNS = ("steady", "abandoned", "idle", "subscribed", "cpu", "captured", "changed", "graph",
              "workers", "jax")  # fmt: skip
_PROBES = ("abandoned", "idle", "subscribed", "cpu", "captured", "changed")
# Of the budget, kept for explaining the runs: seconds, and at most this share.
_EXPLAINING_S = 45.0
_EXPLAINING = 0.2
_LONGEST_S = 150.0  # of one program
_TRY_S = 300.0  # of `stepwhy try`, which ends the pair of runs that it has begun
# Windows beyond these are left out of the results after they were explained: a folder of results
# is to be copied from a machine without a network, and to be attached to a report.
_WINDOW_BYTES = 6 * 2**20
_WINDOWS_BYTES = 48 * 2**20
_REFUSED = 8  # exit code of `stepwhy try` where a fix cannot be tried
# Fix, program, its arguments with a tiny size, and those of the pair whose size it has.
_TRIALS = (
    ("pin-memory", "loader", ("--workers", "2", "--pageable")),
    ("loader-workers=2", "loader", ()),
    ("fused-optimizer", "loop_optimizer", ()),
    ("channels-last", "layout", ()),
    ("autocast=bfloat16", "unfused_batch_norm", ()),
    ("empty-cache-rarely", "empty_cache", ()),
)


class OutOfTimeError(Exception):
    """The budget ended before the result was there."""


@dataclass(frozen=True)
class Item:
    """Something to measure.

    Args:
        name: Name of its result.
        seconds: How long it takes, about.
        measure: Measures it.
        is_alone: Whether no other may run beside it. The others take turns on the GPU, so that
            they only start beside each other: that takes ten seconds, and the steps often one.
    """

    name: str
    seconds: float
    measure: Callable[[], dict[str, Any]]
    is_alone: bool = False


class Lab:
    """One session on a machine.

    Args:
        store: Holds the results.
        tiny: Whether to run the smallest size.
        end: When the budget ends, by `time.monotonic`.
    """

    def __init__(self, store: Store, *, tiny: bool, end: float) -> None:
        self.store, self.tiny, self.end = store, tiny, end
        self.pairs = pairs()
        self.beside = max(min(_BESIDE, (os.cpu_count() or 1) // _CORES_EACH), 1)
        self.is_interrupted = False
        self.judging = threading.Lock()
        if self.beside > 1:
            os.environ[TURN] = str(store.folder / "turn.lock")

    def left_s(self) -> float:
        return self.end - time.monotonic()

    def items(self) -> Iterator[Item]:
        """What to measure, the most important first."""
        yield Item("environment", 25, lambda: environment(tiny=self.tiny), is_alone=True)
        yield Item("peaks", 25, self.peaks, is_alone=True)
        for name in _LIVE_RUNS:
            if name != "jax" or _has("jax"):
                yield Item(f"run/{name}", 12, lambda name=name: self.live_run(name))
        yield from self._overheads(0)
        names = sorted(self.pairs, key=lambda n: _FIRST.index(n) if n in _FIRST else len(_FIRST))
        names = [name for name in names if _has("jax") or not self.pairs[name].uses_jax]
        yield from self._pairs(0, names[:_BEFORE_TRIALS])
        for fix, name, more in _TRIALS:
            yield Item(f"try/{fix.partition('=')[0]}", _TRIAL_S + 15,
                       lambda f=fix, n=name, m=more: self.trial(f, n, m))  # fmt: skip
        yield from self._pairs(0, names[_BEFORE_TRIALS:])
        for number in range(1, 1 if self.tiny else _ROUNDS):
            if number < _OVERHEAD_ROUNDS:
                yield from self._overheads(number)
            yield from self._pairs(number, names)

    def _overheads(self, number: int) -> Iterator[Item]:
        """One round of the programs with and without stepwhy."""
        for name in ("short", "long"):
            for side in ("plain", "observed"):
                yield Item(f"overhead/{name}/{side}/{number}", 10,
                           lambda n=name, s=side: self.overhead(n, s, number))  # fmt: skip

    def _pairs(self, number: int, names: list[str]) -> Iterator[Item]:
        """One round of some pairs, faulty and fixed in turns."""
        for name in names:
            for side in SIDES:
                yield Item(f"pair/{name}/{side}/{number}", 16,
                           lambda n=name, s=side: self.pair(n, s, number))  # fmt: skip

    def peaks(self) -> dict[str, Any]:
        words = [sys.executable, str(HERE / "measure_peaks.py"), *(["--tiny"] if self.tiny else [])]
        ended = self.child(words)
        return {"peaks": json.loads(ended.output.splitlines()[-1])}

    def size(self, pair: Pair, side: str) -> tuple[tuple[str, ...], dict[str, float]]:
        """Arguments of a program, and what was computed for them."""
        if self.tiny:
            return pair.tiny, {}
        measured = self.store.get("peaks")
        if measured is None:
            raise RuntimeError("the peaks of the card were not measured")
        size = SIZES[pair.name](Peaks(**measured["peaks"]))
        more = size.faulty if side == "faulty" else size.fixed
        planned = {"share": size.share, "step_ms": 1000 * size.step_s}
        return (*size.words(), *more), planned

    def pair(self, name: str, side: str, number: int) -> dict[str, Any]:
        pair = self.pairs[name]
        sizes, planned = self.size(pair, side)
        command = pair.command(side, sizes)
        if side == "fixed" and not self.tiny and name == "loader":  # as many as the host has cores
            command += SIZES[name](Peaks(**self.store.get("peaks")["peaks"])).fixed
        if side == "faulty" and not self.tiny and name == "tiny_batch":
            command += SIZES[name](Peaks(**self.store.get("peaks")["peaks"])).faulty
        result = self.observed(f"pair/{name}/{side}/{number}", command, pair.variables[side])
        return {**result, "planned": planned}

    def live_run(self, name: str) -> dict[str, Any]:
        return self.observed(f"run/{name}", self.live_command(name), {})

    def live_command(self, name: str) -> list[str]:
        if name in _PROBES:
            width = 64 if self.tiny or name in ("cpu", "idle") else 2048
            return [sys.executable, str(HERE / "probe.py"), name, str(width)]
        pair, side = {
            "steady": ("empty_cache", "fixed"),
            "graph": ("launch_bound", "fixed"),
            "workers": ("loader", "fixed"),
            "jax": ("jax_transfer", "faulty"),
        }[name]
        return self.pairs[pair].command(side, self.size(self.pairs[pair], side)[0])

    def overhead(self, name: str, side: str, number: int) -> dict[str, Any]:
        """Steps of about 1 or 10 ms, with or without stepwhy."""
        size = {"width": 64, "layers": 4, "rows": 64}
        if not self.tiny:
            peaks = Peaks(**self.store.get("peaks")["peaks"])
            width, layers = (512, 12) if name == "short" else (2048, 12)
            rows = round((1e-3 if name == "short" else 1e-2) * 0.7 * peaks.bf16)
            size = {"width": width, "layers": layers, "rows": rows // (6 * layers * width**2) + 64}
        words = [w for key, value in size.items() for w in (f"--{key}", str(value))]
        steps = "100" if self.tiny else "600" if name == "short" else "300"
        command = [sys.executable, str(FOLDER / "device_memory.py"), *words, "--steps", steps]
        if side == "plain":
            ended = self.child(command)
            return printed(ended.output)
        return self.observed(f"overhead/{name}/{side}/{number}", command, {}, keep=False)

    def observed(
        self, name: str, command: list[str], variables: dict[str, str], *, keep: bool = True
    ) -> dict[str, Any]:
        """Run a program under `stepwhy run`."""
        folder = self.store.fresh_run(name)
        ended = self.child(stepwhy("run", "--quiet", "--out", str(folder), "--", *command),
                           variables)  # fmt: skip
        result = {
            **printed(ended.output),
            "seconds": round(ended.seconds, 2),
            "evidence": evidence(folder),
            "warnings": ended.errors[-1000:],
        }
        if ended.output.lstrip().startswith("{"):
            result["printed"] = json.loads(ended.output.splitlines()[-1])
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def trial(self, fix: str, name: str, more: tuple[str, ...]) -> dict[str, Any]:
        pair = self.pairs[name]
        command = [*pair.command("faulty", self.size(pair, "faulty")[0]), *more]
        folder = self.store.fresh_run(f"try/{fix.partition('=')[0]}")
        words = ["try", "--fix", fix, "--budget", f"{_TRIAL_S}s", "--json", "--out", str(folder)]
        ended = self.child(stepwhy(*words, "--", *command), allowed=(_REFUSED,), longest_s=_TRY_S)
        file = folder / "trial.json"
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        shutil.rmtree(folder, ignore_errors=True)
        if not found:
            raise RuntimeError(f"{ended.failure or 'no result'}\n{ended.errors}")
        return {"verdict": found["verdict"], "trial": found, "command": command, "fix": fix,
                "warnings": ended.errors[-1000:]}  # fmt: skip

    def child(
        self,
        command: list[str],
        variables: dict[str, str] | None = None,
        *,
        allowed: tuple[int, ...] = (),
        longest_s: float = _LONGEST_S,
    ) -> Ended:
        limit = min(self.left_s(), longest_s)
        ended = run(command, limit, variables)
        if ended.code is None and limit < longest_s:
            raise OutOfTimeError
        if ended.failure and ended.code not in allowed:
            raise RuntimeError(f"{ended.failure}\n{ended.errors}")
        return ended

    def measure(self, *, only: tuple[str, ...]) -> None:
        """Measure what has no result yet, until the budget ends."""
        kept = min(_EXPLAINING_S, _EXPLAINING * self.left_s())
        self.end -= kept
        with Clocks() as clocks:
            wanted = (
                item
                for item in self.items()
                if self.store.get(item.name) is None and _chosen(item.name, only)
            )
            for is_alone, items in itertools.groupby(wanted, lambda item: item.is_alone):
                if is_alone or self.beside == 1:
                    for item in items:
                        self._measure_one(item, clocks)
                else:
                    self._measure_beside(items, clocks)
        self.end += kept

    def _measure_beside(self, items: Iterator[Item], clocks: Clocks) -> None:
        """Measure some items, several of them at a time."""
        pool = ThreadPoolExecutor(self.beside)
        try:
            list(pool.map(lambda item: self._measure_one(item, clocks), items))
        except BaseException:
            self.is_interrupted = True
            stop_all()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _measure_one(self, item: Item, clocks: Clocks) -> None:
        if self.is_interrupted or self.left_s() < (1 if self.tiny else item.seconds):
            return
        say(f"{item.name} ({self.left_s():.0f} s left)")
        started = time.monotonic()
        try:
            result = item.measure()
        except OutOfTimeError:
            return
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            if self.is_interrupted:
                return
            result = {"error": f"{type(error).__name__}: {error}"[-3000:]}
            say(f"  failed: {result['error'].splitlines()[0]}")
        if item.name == "environment":
            _check_card(result, tiny=self.tiny)
        card = result.get("card", (self.store.get("environment") or {}).get("card", ""))
        self.store.put(item.name, {"card": card, **result, "clocks": clocks.since(started)})
        if not item.name.startswith("pair/"):
            self.judge()  # at once, for a session that is killed

    def judge(self) -> list[dict[str, str]]:
        """Judge the live points by what is there, and keep the answers."""
        with self.judging:
            return self._judge()

    def _judge(self) -> list[dict[str, str]]:
        items = self.store.all()
        for name, item in items.items():
            if name.startswith("run/"):
                item["explained"] = facts(self.store.explained_result(name))
        found = answers(items)
        self.store.put("points", {"points": found})
        return found

    def explain(self, *, keep_all: bool = False) -> None:
        """Explain the runs that were not explained yet, several at once, and reduce them.

        Args:
            keep_all: Whether to keep all windows as they are.
        """
        names = [name for name in self.store.all() if _is_unexplained(self.store, name)]
        names.sort(key=_importance)
        left = _WINDOWS_BYTES - size_of(self.store.runs)
        left += sum(size_of(self.store.run_of(name)) for name in names)
        workers = max(min((os.cpu_count() or 2) // 2, 8), 1)
        with ThreadPoolExecutor(workers) as pool:
            explained = pool.map(partial(self._explain_one, keep_all=keep_all), names)
            for name, error in zip(names, explained, strict=True):
                if error:
                    say(f"{name} was not explained: {error}")
                elif not keep_all:
                    self._reduce(name, left)
                left -= size_of(self.store.run_of(name))

    def _explain_one(self, name: str, *, keep_all: bool) -> str:
        if self.left_s() < 1:
            return "the budget has ended"
        run_dir = self.store.run_of(name)
        ended = run(stepwhy("explain", "--json", str(run_dir)), min(self.left_s(), _LONGEST_S))
        if ended.failure:
            return ended.failure
        write_whole(self.store.explanation(name), gzip.compress(ended.output.encode(), mtime=0))
        if not keep_all:
            traces = map(str, run_dir.glob("process-*/windows/*/trace.json.gz"))
            run([sys.executable, str(HERE / "slim.py"), *traces], min(self.left_s(), _LONGEST_S))
        return ""

    def _reduce(self, name: str, left: int) -> None:
        """Reduce an explained run, and note which of its windows were left out."""
        run_dir = self.store.run_of(name)
        left_out = reduce(run_dir, _WINDOW_BYTES, left)
        if left_out:
            say(f"{name}: windows are not kept: {', '.join(left_out)}")
            self.store.put(name, {**(self.store.get(name) or {}), "left_out": left_out})


def _is_unexplained(store: Store, name: str) -> bool:
    """Whether a result is that of a run that is there, and was not explained."""
    return (
        name.startswith(("pair/", "run/"))
        and store.get(name) is not None
        and store.run_of(name).is_dir()
        and not store.explanation(name).is_file()
    )


def _importance(name: str) -> tuple[int, str]:
    """Runs for live points first, then those of the first round of pairs."""
    last = name.rpartition("/")[2]
    return (int(last) + 1 if last.isdigit() else 0, name)


class NoGpuError(Exception):
    """There is no GPU to measure."""


def _check_card(about: dict[str, Any], *, tiny: bool) -> None:
    """Check that there is what is to be measured.

    Raises:
        NoGpuError: There is not; the message says why and what to do.
    """
    if not tiny and not about.get("card"):
        problem = about.get("problem") or "PyTorch finds no GPU"
        raise NoGpuError(f"{problem}. Use a Python with PyTorch for CUDA, or try it with --tiny")


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _chosen(name: str, only: tuple[str, ...]) -> bool:
    needed = name in ("environment", "peaks")
    return not only or needed or any(name.startswith(each) for each in only)


def say(text: str) -> None:
    print(f"gpu-lab: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu-lab", description=__doc__)
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="only write what a machine without a network needs, as a tar.gz",
    )
    parser.add_argument(
        "--python-version",
        action="append",
        metavar="X.Y",
        help="of that machine; default 3.12; can be repeated",
    )
    parser.add_argument("--out", type=Path, default=Path("gpu-lab-results"), metavar="FOLDER")
    parser.add_argument("--budget", type=float, default=9.0, metavar="MINUTES")
    parser.add_argument("--missing", action="store_true", help="keep the results that are there")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes, also for a CPU")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="beginnings of names: run, overhead, pair/layout, try")  # fmt: skip
    parser.add_argument("--judge", action="store_true",
                        help="only explain the runs again, and judge the points")  # fmt: skip
    options = parser.parse_args()
    if options.bundle:
        return bundle.write(options.bundle, options.python_version or ["3.12"])
    end = time.monotonic() + 60 * options.budget
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    store = Store(options.out.resolve())
    if refused := _refused(store, options):
        say(refused)
        return 2
    if problem := _unusable():
        say(problem)
        return 2
    lab = Lab(store, tiny=options.tiny, end=end)
    if options.judge:
        for file in store.explained.iterdir():
            file.unlink()
    try:
        if not options.judge:
            lab.measure(only=tuple(options.only))
    except NoGpuError as error:
        say(f"{error}.")
        return 2
    except (KeyboardInterrupt, SystemExit):  # the latter by SIGTERM
        say(f"interrupted; the results in {options.out} are kept: go on with --missing")
        return 130
    lab.judge()
    lab.explain(keep_all=options.judge)
    for each in lab.judge():
        say(f"{each['answer']:<12} {each['point']}: {each['evidence']}")
    return _summary(store, options.out)


def _refused(store: Store, options: argparse.Namespace) -> str:
    """Why this session must not write to a folder of results; '' if it may."""
    if options.judge:
        return "" if store.all() else f"{options.out} holds no results"
    if store.all() and not options.missing:
        return f"{options.out} holds results: add --missing to go on, or name another folder"
    about = store.get("environment") or {}
    if about and about.get("tiny") != options.tiny:
        kind = "in" if about.get("tiny") else "not in"
        return f"the results in {options.out} are {kind} the smallest size: name another folder"
    # By nvidia-smi's name: that of PyTorch also names the partition (MIG).
    before, now = (text.strip().partition(",")[0].partition("\n")[0]
                   for text in (about.get("nvidia_smi", ""), query("name")))  # fmt: skip
    if before and now and before != now:
        return f"{options.out} holds results of {before}, this is {now}: name another folder"
    return ""


def _unusable() -> str:
    """Why stepwhy does not run with this Python, and what to do; '' if it does."""
    ended = run([sys.executable, "-c", "import stepwhy.cli, msgspec, numpy, rich"], _LONGEST_S)
    if not ended.failure:
        return ""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"stepwhy does not run with {sys.executable}: {ended.failure.partition(': ')[2]}. Name "
        f"another Python (PYTHON=...), or make a bundle with --python-version {version}"
    )


def _summary(store: Store, out: Path) -> int:
    """Say what is there and what is not; returns an exit code."""
    items = store.all()
    failed = [name for name, item in items.items() if item.get("error")]
    for name in store.damaged():
        say(f"{name} is damaged: --missing measures it again")
    if waiting := [name for name in items if _is_unexplained(store, name)]:
        say(f"not explained yet: {', '.join(waiting)}: --judge does that, also elsewhere")
    say(f"{len(items)} results in {out}, {size_of(store.folder) / 2**20:.1f} MiB; "
        f"failed: {', '.join(failed) or 'none'}")  # fmt: skip
    program = ROOT / "stepwhy"  # of a bundle
    say(f"Grade them: {program if program.is_file() else 'stepwhy'} lab grade --gpu {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
