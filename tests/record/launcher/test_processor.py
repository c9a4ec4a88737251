"""The model of the processor, as Linux describes it on several architectures."""

import platform

import pytest

from stepwhy.record.launcher.run_directory import processor_model


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor : 0\nmodel : 1\nmodel name\t: AMD  EPYC\n\nprocessor : 1", "AMD EPYC"),
        ("processor\t: 0\nCPU part\t: 0xd0c\n\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        ("processor\t: 0\nCPU part\t: 0xd0c\n", platform.machine()),
        ("", platform.machine()),
    ],
)  # fmt: skip
def test_model(tmp_path, text, model):
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    assert processor_model(path) == model


def test_without_a_description_the_architecture_is_known(tmp_path):
    assert processor_model(tmp_path / "none") == platform.machine()


def test_models_of_unlike_processors_count_once(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("model name\t: big\n\nmodel name\t: little\n")
    assert processor_model(path) == "big"
