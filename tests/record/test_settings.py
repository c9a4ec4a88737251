"""Which environment variables are recorded, and which of their values."""

import json
import os

from stepwhy.diagnose.shared.settings import SETTINGS
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.settings import FORMS, OPTIONS, settings_of


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
