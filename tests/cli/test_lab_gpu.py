"""The pairs for a GPU: they exist, train alike, and their faults take the planned share."""

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli, lab_pairs
from stepwhy.diagnoses import TABLE

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
    assert len(found) == len(harness("pairs").pairs()) == 22
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
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("same training") == 3


@pytest.mark.framework
@pytest.mark.xdist_group("timing")
def test_a_killed_session_goes_on_and_is_graded(tmp_path):
    """Kill the harness after its first result; the second session keeps it and does the rest."""
    out = tmp_path / "results"
    words = [sys.executable, HARNESS, "--tiny", "--out", out, "--only", "pair/item_sync"]
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    kept = out / "items/environment.json"
    while first.poll() is None and not kept.is_file():
        time.sleep(0.05)
    first.kill()
    first.wait()
    before = kept.stat().st_mtime_ns
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--missing" in refused.stderr
    ended = subprocess.run([*words, "--missing"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert kept.stat().st_mtime_ns == before
    outcome = CliRunner().invoke(cli, ["lab", "grade", "--gpu", str(out), "--json"])
    assert outcome.exit_code == 0, outcome.output
    graded = json.loads(outcome.stdout)
    assert graded["tiny"]
    (pair,) = graded["pairs"]
    assert pair["graded"]["faulty_runs"] == pair["graded"]["fixed_runs"] == 1
    assert pair["faulty_ns"] > 0
    text = " ".join(CliRunner().invoke(cli, ["lab", "grade", "--gpu", str(out)]).stdout.split())
    assert "nothing about a GPU" in text
    recorded = CliRunner().invoke(cli, ["lab", "grade", "--gpu", str(out), "--record"])
    assert recorded.exit_code == 2


def test_a_folder_without_results_is_an_error(tmp_path):
    assert CliRunner().invoke(cli, ["lab", "grade", "--gpu", str(tmp_path)]).exit_code == 3


# Evidence as runs on a GPU would leave it; times in ms.
WINDOW = {
    "first_step": 5, "last_step": 8, "kernels": 400, "device_ms": 40.2, "with_shapes": 90,
    "sync_events": 3, "device_properties": ["name", "totalGlobalMem"], "bytes": 9,
}  # fmt: skip


def evidence(windows, steps=()):
    return {"windows": windows, "steps": steps, "messages": [], "gpu_samples": 0,
            "stack_samples": True}  # fmt: skip


def recorded_items(**changes):
    steps = [[10.0, 0]] * 5 + [[12.0, 1]] * 4 + [[10.0, 0]] * 20
    return {
        "environment": {"card": "NVIDIA H100", "versions": [], "missing_names": []},
        "run/steady": {"evidence": evidence([WINDOW | changes], steps), "step_ms": [10.0]},
        "run/abandoned": {"evidence": evidence([WINDOW | {"kernels": 0}])},
    }


def answer(harness, items, point):
    return {p["point"]: p["answer"] for p in harness("points").answers(items)}[point]


def test_live_points_are_judged_by_their_evidence(harness):
    items = recorded_items()
    assert answer(harness, items, "device-time") == "ok"
    assert answer(harness, items, "shapes") == "ok"
    assert answer(harness, items, "abandoned-window") == "broken"
    assert answer(harness, items, "empty-trace") == "broken"
    assert answer(harness, items, "device-properties") == "broken"
    assert answer(harness, items, "window-start") == "ok"
    assert answer(harness, items, "forks") == "cannot tell"  # that run is missing
    assert answer(harness, recorded_items(with_shapes=0), "shapes") == "broken"
    assert answer(harness, recorded_items(device_ms=50.0), "device-time") == "broken"
    items["environment"]["card"] = ""
    assert answer(harness, items, "device-time") == "cannot tell"
