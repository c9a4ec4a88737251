"""Which environment variables are recorded, and which of their values."""

import json
import os
import sys
from types import SimpleNamespace

import pytest

from stepwhy.diagnose.shared.settings import SETTINGS
from stepwhy.record.core import settings
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.settings import FORMS, OPTIONS, setting_lines, settings_of
from stepwhy.record.core.user_code import program_files


def test_only_known_variables_with_an_effect_are_recorded() -> None:
    environ = {
        "CUDA_LAUNCH_BLOCKING": "1",
        "NCCL_P2P_DISABLE": "0",
        "TORCH_DISTRIBUTED_DEBUG": "OFF",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:64",
        "XLA_FLAGS": "--xla_dump_to=/home/me/secret --xla_gpu_autotune_level=0",
        "API_TOKEN": "1",
    }
    assert settings_of(environ) == {
        "CUDA_LAUNCH_BLOCKING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
        "XLA_FLAGS": "--xla_gpu_autotune_level=0",
    }


def test_values_of_another_form_are_not_kept() -> None:
    values = ("hunter2", "1; rm -rf", "/home/me", "9" * 10)
    for name in (*FORMS, *OPTIONS):
        assert [settings_of({name: value}) for value in values] == [{}] * 4


def test_each_recorded_variable_has_a_meaning() -> None:
    assert {*FORMS, *OPTIONS} == set(SETTINGS)


def test_what_the_program_sets_itself_is_recorded(tmp_path, monkeypatch) -> None:
    recorder = Recorder(str(tmp_path), "pytorch", "2.13.0", "torch-optimizer")
    monkeypatch.setitem(os.environ, "CUDA_LAUNCH_BLOCKING", "1")
    recorder.step("{}")
    recorder.close()
    (process,) = tmp_path.glob("process-*/process.json")
    assert json.loads(process.read_text())["settings"]["CUDA_LAUNCH_BLOCKING"] == "1"


def test_functions_of_tensorflow_that_run_eagerly(monkeypatch) -> None:
    config = SimpleNamespace(functions_run_eagerly=lambda: True)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    assert settings.process_settings()["settings"]["run_functions_eagerly"] == "1"
    config.functions_run_eagerly = lambda: False
    assert "run_functions_eagerly" not in settings.process_settings().get("settings", {})


def test_a_model_of_keras_that_fits_eagerly(monkeypatch) -> None:
    monkeypatch.setattr(settings, "_of_fit", {})
    settings.note_fit(None)
    settings.note_fit(SimpleNamespace(run_eagerly=False))
    assert "run_eagerly" not in settings.process_settings().get("settings", {})
    settings.note_fit(SimpleNamespace(run_eagerly=True))
    assert settings.process_settings()["settings"]["run_eagerly"] == "1"


PROGRAM = """
import os, torch

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("JAX_ENABLE_CHECKS", "1")

def main():
    (torch
        .set_num_threads(1))
    jax.config.update("jax_debug_nans", True)
    with jax.disable_jit():
        pass
    return tf.ConfigProto(intra_op_parallelism_threads=1)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The lines of a program that name settings, as (name, line)."""
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    module = SimpleNamespace(__file__=str(path))
    monkeypatch.setitem(sys.modules, "the_program", module)
    # The modules of other tests are more than are read.
    monkeypatch.setattr(
        settings,
        "program_files",
        lambda: [each for each in program_files() if each[0] == str(path)],
    )
    return lambda: [(name, line) for name, line in setting_lines() if "train.py" in line]


def test_lines_that_name_a_setting(program) -> None:
    named = {name: line.partition("train.py")[2] for name, line in program()}
    assert named == {
        "set_num_threads": "(9): main",
        "jax_debug_nans": "(10): main",
        "disable_jit": "(11): main",
        "intra_op_parallelism_threads": "(13): main",
    }


def test_a_variable_that_the_program_has_set(program, monkeypatch) -> None:
    monkeypatch.setitem(os.environ, "JAX_ENABLE_CHECKS", "1")
    named = dict(program())
    assert named["JAX_ENABLE_CHECKS"].endswith("train.py(5): <module>")
    assert "OMP_NUM_THREADS" not in named


def test_a_module_of_a_file_that_does_not_exist(program, monkeypatch) -> None:
    """As `torch.ops`, which every program of PyTorch has."""
    found = [("_ops.py", "_ops.py"), *settings.program_files()]
    monkeypatch.setattr(settings, "program_files", lambda: found)
    assert "set_num_threads" in dict(program())
