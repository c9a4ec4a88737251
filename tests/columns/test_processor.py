"""The fingerprint of a processor depends on what matters to compiled code."""

import sys
from pathlib import Path

import pytest

from stepwhy.base.columns import code_cache
from stepwhy.base.columns.code_cache import processor

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU
cpu MHz\t\t: 2699.998
flags\t\t: fpu avx2 avx512f
bugs\t\t: spectre_v1

processor\t: 1
flags\t\t: fpu
"""
GRAVITON = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
"""


@pytest.fixture
def described(tmp_path):
    def write(text):
        path = tmp_path / "cpuinfo"
        path.write_text(text)
        return processor(path)

    return write


@pytest.mark.parametrize("text", [XEON, GRAVITON])
def test_same_type_has_the_same_fingerprint(described, text):
    later = text.replace("2699.998", "800.1").replace("243.75", "50.0")
    assert described(text) == described(later)


@pytest.mark.parametrize(
    ("text", "of", "instead"),
    [
        (XEON, "avx512f", "avx512_fp16"),
        (XEON, ": 143", ": 85"),
        (XEON, "GenuineIntel", "AuthenticAMD"),
        (GRAVITON, "sve", "sve2"),
        (GRAVITON, "0xd40", "0xd0c"),
    ],
)
def test_other_type_has_another_fingerprint(described, text, of, instead):
    assert of in text
    assert described(text) != described(text.replace(of, instead))


@pytest.mark.parametrize("text", ["", "processor\t: 0\nisa\t: rv64imafdc\n"])
def test_compiler_library_is_the_fallback(described, monkeypatch, text):
    monkeypatch.setattr(code_cache, "_processor_of_compiler", lambda: b"compiler")
    assert described(text) == b"compiler"
    assert processor(Path("/no/such/file")) == b"compiler"


def test_compiler_library_names_machine_and_instruction_sets():
    kind, _, features = code_cache._processor_of_compiler().split(b"\0")
    assert b"-" in kind
    assert features.count(b"+") > 1


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux describes it")
def test_this_machine_needs_no_compiler_library(monkeypatch):
    monkeypatch.setattr(code_cache, "_processor_of_compiler", pytest.fail)
    assert processor().count(b":") >= 2
