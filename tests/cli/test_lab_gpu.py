"""The pairs for a GPU: they exist, train alike, and their faults take the planned share."""

import gzip
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import fields, replace

from stepwhy.cli import cli, lab_pairs
from stepwhy.diagnose import TABLE
from stepwhy.engine import explain
from stepwhy.read.formats.kineto.arguments import KinetoArgs
from stepwhy.result import Finding, Saving
from tests.measure.results import MS, result, steady

TRACES = os.environ.get("STEPWHY_TRACES", "")
HARNESS = Path(__file__).parents[2] / "lab/gpu/harness"

# What such cards reach, rounded; used for arithmetic only.
CARDS = {
    "H100": (50e12, 300e12, 700e12, 2.8e12, 50e9, 10e9, 6e-6, 2e-6, 25e-6, 350e-6, 80e9, 16),
    "A100": (18e12, 120e12, 250e12, 1.6e12, 24e9, 8e9, 7e-6, 2.5e-6, 28e-6, 400e-6, 40e9, 12),
    "B200": (70e12, 900e12, 1600e12, 7e12, 55e9, 12e9, 6e-6, 2e-6, 20e-6, 300e-6, 180e9, 28),
}


@pytest.fixture
def harness(monkeypatch):
    """Import a module of the harness, for this test only."""
    monkeypatch.syspath_prepend(str(HARNESS))
    loaded = []

    def load(name):
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def test_every_pair_has_programs_and_a_diagnosis_or_a_reason_for_none(harness):
    known = {name.replace("_", "-") for name in TABLE}
    ordinary = {pair.name for pair in lab_pairs.pairs()}
    found = [pair for pair in lab_pairs.pairs(gpu=True) if pair.name not in ordinary]
    assert len(found) == len(harness("pairs").pairs()) == 24
    for pair in found:
        assert pair.diagnosis in known or (
            not pair.diagnosis and "reason" in (pair.folder / "pair.toml").read_text()
        )
        assert "tiny" in pair.sizes
        assert all((pair.folder / words[0]).is_file() for words in (pair.faulty, pair.fixed))


def test_variables_are_set_for_the_program_that_needs_them(tmp_path):
    faulty, fixed = lab_pairs.programs_of(lab_pairs.find("gpu/launch_blocking"), "tiny", tmp_path)
    assert faulty.label != fixed.label
    pair = lab_pairs.find("launch_blocking")
    assert pair.variables == (("CUDA_LAUNCH_BLOCKING=1",), ())


@pytest.mark.parametrize("card", CARDS)
def test_the_fault_takes_its_share_and_fits_on_the_card(harness, card):
    sizes, pairs = harness("sizes"), harness("pairs").pairs()
    *rates, memory, cores = CARDS[card]
    peaks = sizes.Peaks(*rates, 350e-6, 400e-6, memory, cores)
    assert sizes.SIZES.keys() == pairs.keys()
    for name, size_for in sizes.SIZES.items():
        size = size_for(peaks)
        low, high = pairs[name].share
        assert low <= size.share <= high, name
        assert size.memory_bytes <= 0.8 * memory, name
        # Options are understood by both programs.
        program = (HARNESS.parent / name / pairs[name].words["faulty"][0]).read_text()
        assert all(option.replace("-", "_") in program for option in size.options), name


@pytest.mark.framework
@pytest.mark.xdist_group("timing")
def test_three_pairs_train_alike():
    words = [sys.executable, HARNESS / "twins.py", "item_sync", "fragmentation", "jax_sync"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("same training") == 3


def explanation():
    """What is reported about each run: the fault of three pairs, of 3 to 5 ms."""
    return replace(
        result(steady(10 * MS), categories={"compute": 10 * MS, "unexplained": 0}),
        findings=tuple(
            Finding(name, "found", "Do it", 4 * MS, saving=Saving(3 * MS, 5 * MS, "edit"))
            for name in ("pageable-copy", "host-sync", "launch-bound")
        ),
    )


def session(tmp_path, *words, card="NVIDIA H100", kill_after=0):
    """Run a session with canned programs; returns how it ended."""
    canned = tmp_path / "explanation.json"
    canned.write_bytes(msgspec.json.encode(explanation()))
    program = Path(__file__).with_name("gpu_lab_session.py")
    return subprocess.run(
        [sys.executable, program, tmp_path / "out", card, str(kill_after), canned, *words],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def test_programs_that_start_beside_each_other_give_the_same_results(tmp_path, monkeypatch):
    names = []
    for cores in ("2", "16"):
        monkeypatch.setenv("CORES_OF_GPU_LAB", cores)
        (tmp_path / cores).mkdir()
        ended = session(tmp_path / cores)
        assert "failed: none" in ended.stderr, ended.stderr
        names.append(sorted(file.name for file in (tmp_path / cores / "out/items").iterdir()))
    assert names[0] == names[1]


def test_results_are_judged_again_without_measuring_or_losing_anything(tmp_path):
    assert session(tmp_path, "--judge").returncode == 2  # there is nothing yet
    session(tmp_path)
    out = tmp_path / "out"
    before = {file: file.read_bytes() for file in out.glob("runs/**/*") if file.is_file()}
    (out / "items/points.json").unlink()
    for file in (out / "explained").iterdir():
        file.write_bytes(b"old")
    ended = session(tmp_path, "--judge", card="")
    assert "device-time" in ended.stderr
    assert "steady (" not in ended.stderr  # measured nothing
    assert before == {file: file.read_bytes() for file in out.glob("runs/**/*") if file.is_file()}
    assert all(file.read_bytes() != b"old" for file in (out / "explained").iterdir())


def test_a_loss_that_diverges_damages_no_result(harness, tmp_path):
    store = harness("store").Store(tmp_path)
    store.put("pair/x", {"losses": [1.5, float("nan")], "more": {"top": float("inf")}})
    assert store.all()["pair/x"] == {"losses": [1.5, None], "more": {"top": None}, "name": "pair/x"}
    assert msgspec.json.decode((tmp_path / "items/pair.x.json").read_bytes())


def test_only_one_program_at_a_time_uses_the_gpu(tmp_path):
    log, lock = tmp_path / "log", tmp_path / "lock"
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import turn\n"
        "def say(word): open(sys.argv[2], 'a').write(word)\n"
        "turn.take('json'); assert 'json' in sys.modules\n"
        "say('['); time.sleep(0.05); say(']')\n"
    )
    command = [sys.executable, "-c", program, str(HARNESS.parent), str(log)]
    running = [
        subprocess.Popen(command, env={**os.environ, "GPU_LAB_TURN": str(lock)}) for _ in range(4)
    ]
    assert [child.wait(60) for child in running] == [0] * 4
    assert log.read_text() == "[]" * 4


def grade(folder, *words):
    outcome = CliRunner().invoke(cli, ["lab", "grade", "--gpu", str(folder), *words])
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_a_killed_session_keeps_every_result_and_goes_on(tmp_path):
    out = tmp_path / "out"
    assert session(tmp_path, kill_after=20).returncode == -9
    before = {file: file.stat().st_mtime_ns for file in (out / "items").iterdir()}
    assert len(before) >= 18
    half = json.loads(grade(out, "--json"))
    assert half["points"]
    assert {bound["answer"] for bound in half["bounds"]} >= {"not measured"}

    assert "--missing" in session(tmp_path).stderr  # nothing is overwritten
    damaged = out / "items/run.steady.json"
    damaged.write_text('{"name": "run/st')
    assert "items/run.steady.json, which is damaged" in grade(out, "--json")
    assert "NVIDIA A100" in session(tmp_path, "--missing", card="NVIDIA A100").stderr
    ended = session(tmp_path, "--missing")
    assert ended.returncode == 0, ended.stderr
    unchanged = {file: file.stat().st_mtime_ns for file in before} | {
        file: before[file] for file in (damaged, out / "items/points.json")
    }
    assert unchanged == before
    assert json.loads(damaged.read_text())["step_ms"] == [6.0] * 5
    assert not list(out.rglob("report.html"))  # runs are reduced

    other = json.loads((out / "items/pair.casts.faulty.1.json").read_text())
    other |= {"card": "NVIDIA A100", "step_ms": [1e6]}
    (out / "items/pair.casts.faulty.1.json").write_text(json.dumps(other))
    graded = json.loads(grade(out, "--json"))
    assert graded["left_out"] == ["1 result of another card, NVIDIA A100"]
    assert graded["clocks"]["high_mhz"] == 1980
    assert len(graded["clocks"]["reasons"]["power cap"]) > 90
    assert len(graded["pairs"]) == 24
    pairs = {pair["graded"]["name"]: pair for pair in graded["pairs"]}
    assert pairs["casts"]["faulty_ns"] == 10 * MS
    assert (pairs["pageable_copy"]["kept"], pairs["casts"]["kept"]) == ("yes", "")
    bounds = {bound["bound"]: bound["answer"] for bound in graded["bounds"]}
    assert bounds["At least 16 faults are the first finding"] == "not met"
    assert bounds["No fault is reported where there is none"] == "not met"
    text = grade(out)
    assert "power cap" in text
    text = " ".join(text.split())
    assert "refused (the model has no convolution)" in text
    assert "not tried" not in text


def test_without_a_gpu_only_the_smallest_sizes_run(tmp_path):
    ended = session(tmp_path, card="")
    assert ended.returncode == 2
    assert "--tiny" in ended.stderr
    assert not list((tmp_path / "out/items").iterdir())


def test_a_folder_without_results_is_an_error(tmp_path):
    assert CliRunner().invoke(cli, ["lab", "grade", "--gpu", str(tmp_path)]).exit_code == 3


def test_a_python_without_the_dependencies_is_told_what_it_needs(tmp_path):
    (tmp_path / "msgspec.py").write_text("raise ImportError('built for another Python')")
    words = [sys.executable, HARNESS, "--tiny", "--out", tmp_path / "out"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False,
                           env=os.environ | {"PYTHONPATH": str(tmp_path)}, timeout=240)  # fmt: skip
    assert ended.returncode == 2
    assert "built for another Python" in ended.stderr
    assert "--python-version" in ended.stderr


def test_a_bundle_explains_with_its_own_dependencies(harness, tmp_path):
    folder = tmp_path / "gpu-lab"
    site = folder / f"site/{sys.version_info.major}.{sys.version_info.minor}"
    site.mkdir(parents=True)
    (site / "sitecustomize.py").write_text("print('of the bundle')")
    (folder / "src").symlink_to(HARNESS.parents[2] / "src")
    (folder / "stepwhy").write_text(harness("bundle").START_STEPWHY)
    ended = subprocess.run(["/bin/sh", folder / "stepwhy", "explain", "--help"], text=True,
                           capture_output=True, check=False,
                           env=os.environ | {"PYTHON": sys.executable}, timeout=240)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("of the bundle\nUsage: ")


OLD_SMI = """#!/bin/bash
case "$*" in
*event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field'; exit 2;;
*--loop-ms*) while echo "1410, 265.31, 55, 0x0000000000000004"; do sleep 0.05; done;;
*) echo "1410, [N/A], 55, 0x0000000000000004";;
esac
"""


def test_clocks_are_sampled_in_the_background(harness, monkeypatch, tmp_path):
    """By a driver that knows the reasons by their older name only."""
    clocks = harness("clocks")
    monkeypatch.setenv("PATH", str(tmp_path))
    with clocks.Clocks() as sampler:
        missing = {"samples": 0, "missing": "nvidia-smi is missing"}
        assert sampler.since(0) == missing
    program = tmp_path / "nvidia-smi"
    program.write_text(OLD_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    started = time.monotonic()
    with clocks.Clocks() as sampler:
        while not (found := sampler.since(started))["samples"]:
            assert time.monotonic() < started + 120
        assert found["sm_mhz"] == [1410, 1410, 1410]
        assert found["power_w"] == [265.31] * 3
        assert found["reasons"] == {"power cap": 1.0}
        assert sampler.since(time.monotonic() + 60)["missing"]  # no sample is that late


def test_windows_are_reduced_to_what_explaining_them_needs(harness, tmp_path):
    """The reader needs no other argument, and reads the same from what is left."""
    slim = harness("slim")
    assert {field.encode_name for field in fields(KinetoArgs)} == slim.ARGUMENTS
    events = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1e15 + 0.5, "dur": 2.125, "pid": 0,
         "tid": 7, "args": {"stream": 7, "correlation": 3, "grid": [1, 2, 3]}},
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "ts": 1.0, "pid": 0, "tid": 7},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"labels": "kept"}},
    ]  # fmt: skip
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    precise = text.replace("1000000000000000.5", "1000000000000000.123")
    window = tmp_path / "process-1/windows/000"
    window.mkdir(parents=True)
    trace = window / "trace.json.gz"
    trace.write_bytes(gzip.compress(precise.encode(), 0))
    slim.slim_trace(trace)
    assert slim.reduce(tmp_path, 10_000, 10_000) == []
    left = gzip.decompress(trace.read_bytes()).decode()
    assert '"ts":1000000000000000.123,' in left
    kernel, name = json.loads(left)["traceEvents"]
    assert kernel["args"] == {"stream": 7, "correlation": 3}
    assert name["args"] == {"labels": "kept"}
    assert slim.reduce(tmp_path, 10_000, 10) == ["000: 0.0 MiB"]
    assert not trace.exists()


@pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces")
@pytest.mark.parametrize("name", ["h100_bertsmall", "mi300_bertsmall", "a100_ddp_rank0of2_2024"])
def test_a_reduced_trace_is_explained_as_before(harness, tmp_path, name):
    trace = tmp_path / "trace.json.gz"
    shutil.copy(Path(TRACES) / f"kineto/{name}.json.gz", trace)
    before, size = without_inputs(trace), trace.stat().st_size
    trace.chmod(0o600)
    harness("slim").slim_trace(trace)
    assert trace.stat().st_size < 0.9 * size
    assert without_inputs(trace) == before


def without_inputs(trace):
    """What is explained about a trace, but for the counts of what was not read."""
    found = msgspec.to_builtins(explain([str(trace)]))
    return {key: value for key, value in found.items() if key not in {"inputs", "wall_clock"}}


# Evidence as runs on a GPU would leave it; times in ms.
WINDOW = {
    "first_step": 5, "last_step": 8, "kernels": 400, "with_shapes": 90, "sync_events": 3,
    "device_properties": ["name", "totalGlobalMem"], "bytes": 9,
}  # fmt: skip
EMPTY = WINDOW | {"kernels": 0}
REPORTED = EMPTY | {"kernels_missing": True}
GPU_SAMPLE = {"name": "NVIDIA H100", "total_bytes": 80e9, "used_bytes": 1e9}


def live(*windows, messages=(), **more):
    """A run of a program on a GPU."""
    steps = [[10.0, 0]] * 5 + [[12.0, 1]] * 4 + [[10.0, 0]] * 20
    found = {"windows": list(windows), "steps": steps, "messages": list(messages),
             "gpu_samples": 5, "gpus": [GPU_SAMPLE], "stack_samples": True,
             "kept": ["lines.json.gz", "semantic.json"], "refused": []}  # fmt: skip
    return {
        "evidence": found | more.pop("evidence", {}), "step_ms": [10.0], "losses": [1.5, 0.5],
        "explained": {"busy_ms": 10.05, "kernels": 400, "models": ["NVIDIA H100"]}, **more,
    }  # fmt: skip


def measured(name, ms):
    return {f"overhead/long/{name}/{number}": {"step_ms": [each]} for number, each in enumerate(ms)}


ENVIRONMENT = {
    "card": "NVIDIA H100 MIG 1g.10gb", "memory_bytes": 80.5e9,
    "versions": ["torch 2.11.0", "jax 0.10"],
    "missing_names": [], "ptrace_scope": "1",
}  # fmt: skip


def on_cpu(*, context):
    printed = {"gpu": True, "context_before": False, "context": context}
    return {"run/cpu": {"printed": printed}}


def around(*special):
    """A run with these steps in the middle."""
    return steady_run(WINDOW, evidence={"steps": [*AROUND, *special, *AROUND]})


def steady_run(*windows, **more):
    return {"run/steady": live(*windows, **more)}


def without_stacks(*messages):
    return steady_run(WINDOW, evidence={"stack_samples": False}, messages=messages)


def beside(*args, state="subscribed", **more):
    return {"run/subscribed": live(*args, printed={"subscriber": state}, **more)}


def observed(plain=(1.5, 0.5), **more):
    """The program with long steps, with and without stepwhy."""
    return {
        "overhead/long/observed/0": live(WINDOW, **more),
        "overhead/long/plain/0": {"losses": list(plain), "step_ms": [10.0]},
    }


def captured(step, loss=0.5, reason="CUDA graphs are in use"):
    printed = {"captured": step, "loss": loss}
    return {"run/captured": live(printed=printed, evidence={"refused": [reason]})}


NOTHING_KEPT = {"kept": [], "refused": ["it took too long"]}


def idle(*windows, **more):
    return {"run/idle": live(*windows, printed={"held": True}, **more)}


TWIN = {"losses": [1.5, 0.5]}
TRIALS = ("pin-memory", "loader-workers", "fused-optimizer", "channels-last", "autocast",
          "empty-cache-rarely")  # fmt: skip
TRIED = {f"try/{name}": {"verdict": "cannot tell", "trial": {}} for name in TRIALS}
WHOLE = WINDOW | {
    "device_properties": ["name", "totalGlobalMem", "numSms", "computeMajor", "computeMinor"]
}
GRAPHED = "pair/launch_bound/faulty/0"
NOTED = {"messages": ["kernels-missing"]}
AROUND = [[10.0, 0]] * 4


@pytest.mark.parametrize(("point", "items", "expected"), [
    ("shapes", steady_run(WINDOW), "passed"),
    ("shapes", steady_run(WINDOW | {"with_shapes": 0}), "failed"),
    ("shapes", steady_run(), "cannot tell"),  # no window at all
    ("cpu-training", on_cpu(context=False), "passed"),
    ("cpu-training", on_cpu(context=True), "failed"),
    ("cpu-training", on_cpu(context=None), "cannot tell"),
    ("window-start", steady_run(WINDOW), "passed"),
    ("window-start", around([90.0, 0], [12.0, 1]), "failed"),
    ("window-start", around(), "cannot tell"),
    ("device-time", steady_run(WINDOW), "passed"),
    ("device-time", steady_run(WINDOW, step_ms=[11.0]), "failed"),
    ("device-time", steady_run(WINDOW, step_ms=[60.0, 10.0, 10.0, 10.0, 10.0]), "passed"),
    ("device-time", steady_run(WINDOW, explained=None), "cannot tell"),
    ("window-end", steady_run(WINDOW), "passed"),
    ("window-end", around([12.0, 1], [90.0, 0]), "failed"),
    ("abandoned-window", {"run/abandoned": live(WINDOW, messages=["profiler-in-use"])}, "passed"),
    ("abandoned-window", {"run/abandoned": live(EMPTY, messages=["profiler-in-use"])}, "failed"),
    ("abandoned-window", {"run/abandoned": live(WINDOW)}, "cannot tell"),  # none was abandoned
    ("after-window", measured("plain", [10, 10.3]) | measured("observed", [10, 10.2]), "passed"),
    ("after-window", measured("plain", [10, 10.1]) | measured("observed", [10.9, 11]), "failed"),
    ("after-window", measured("plain", [10, 12]) | measured("observed", [11, 13]), "cannot tell"),
    ("semantic-step", observed(), "passed"),
    ("semantic-step", observed(evidence=NOTHING_KEPT), "failed"),
    ("semantic-step", observed(plain=(1.5, 0.6)), "failed"),
    ("semantic-step", {}, "cannot tell"),
    ("lines", observed(), "passed"),
    ("lines", observed(evidence=NOTHING_KEPT), "failed"),
    ("captured-step", captured(9), "passed"),
    ("captured-step", captured(9, loss=None), "failed"),
    ("captured-step", captured(None), "cannot tell"),
    ("captured-step", {"run/captured": {"error": "exit code 1: RuntimeError"}}, "failed"),
    ("captured-step", {}, "cannot tell"),
    ("later-window", {"run/changed": live(WINDOW, WINDOW)}, "passed"),
    ("later-window", {"run/changed": live(WINDOW, EMPTY)}, "failed"),
    ("later-window", {"run/changed": live(WINDOW)}, "cannot tell"),
    ("cuda-graph", {"run/graph": live(WINDOW), GRAPHED: TWIN}, "passed"),
    ("cuda-graph", {"run/graph": live(WINDOW, losses=[1.5, 0.9]), GRAPHED: TWIN}, "failed"),
    ("cuda-graph", {"run/graph": {"error": "exit code -11"}}, "cannot tell"),
    ("sync-events", steady_run(WINDOW | {"sync_events": 0}), "failed"),
    ("empty-trace", idle(REPORTED, **NOTED), "passed"),
    ("empty-trace", idle(EMPTY), "failed"),
    ("empty-trace", idle(REPORTED, **NOTED) | {"pair/casts/fixed/0": live(EMPTY)}, "failed"),
    ("empty-trace", idle(WINDOW), "cannot tell"),
    ("other-profilers", beside(WINDOW), "passed"),
    ("other-profilers", beside(REPORTED, **NOTED), "passed"),
    ("other-profilers", beside(EMPTY), "failed"),
    ("other-profilers", beside(WINDOW, state="refused"), "cannot tell"),
    ("nvml", steady_run(WINDOW), "passed"),
    ("nvml", steady_run(WINDOW, evidence={"gpus": [GPU_SAMPLE | {"total_bytes": 4e9}]}), "failed"),
    ("nvml", steady_run(WINDOW, evidence={"gpu_samples": 0}), "failed"),
    ("py-spy", without_stacks(), "failed"),
    ("py-spy", without_stacks("stack-access"), "cannot tell"),
    ("py-spy", without_stacks("py-spy-missing"), "cannot tell"),
    ("trials", TRIED, "passed"),
    ("trials", TRIED | {"try/autocast": {"verdict": "refused"}}, "failed"),
    ("trials", {"try/autocast": {"verdict": "gain"}}, "cannot tell"),  # five are missing
    ("forks", {"run/workers": live(), "pair/loader/faulty/0": TWIN}, "passed"),
    ("forks", {"run/workers": live(messages=["observer-stopped"])}, "failed"),
    ("forks", {}, "cannot tell"),
    ("private-names", {}, "passed"),
    ("jax", {"run/jax": live({"bytes": 9})}, "passed"),
    ("jax", {"run/jax": live(explained={"kernels": 0, "models": ["NVIDIA H100"]})}, "failed"),
    ("jax", {"run/jax": live(explained={"kernels": 9, "models": []})}, "cannot tell"),
    ("device-properties", steady_run(WHOLE), "passed"),
    ("device-properties", steady_run(WINDOW), "failed"),
])  # fmt: skip
def test_live_points_are_judged_by_their_evidence(harness, point, items, expected):
    answers = harness("points").answers
    found = {each["point"]: each for each in answers({"environment": ENVIRONMENT, **items})}
    assert found[point]["answer"] == expected, found[point]["evidence"]
    on_cpu = {each["point"]: each["answer"] for each in answers({**items, "environment": {}})}
    assert on_cpu[point] == "cannot tell" or point in {"py-spy", "cpu-training"}
