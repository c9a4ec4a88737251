"""Files of profilers without the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepwhy.capture import blanking
from stepwhy.capture.blanking import blank

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/mnt/people/someone")
    monkeypatch.setenv("USER", "someone")
    monkeypatch.setenv("LOGNAME", "someone")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (
            b"\x0a\x1f/mnt/people/someone/p/train.py\x12",
            b"\x0a\x1f~" + b"/" * 19 + b"p/train.py\x12",
        ),
        (b'"/home/me/x.py(3): f"', b'"~////////x.py(3): f"'),
        (b"/root/x.py /rooted/x", b"~/////x.py /rooted/x"),
        (b"/tmp/torchinductor_someone/ab", b"/tmp/torchinductor_~///////ab"),
        (b"/scratch/someone/x", b"/scratch/~///////x"),
        (b"awesomeone/x someone", b"awesomeone/x someone"),
        (b"", b""),
    ],
)
def test_paths_keep_their_end_and_files_their_length(
    tmp_path: Path, written: bytes, kept: bytes
) -> None:
    path = tmp_path / "trace.pb"
    path.write_bytes(written)
    blank(path)
    assert path.read_bytes() == kept
    assert len(kept) == len(written)


@pytest.mark.parametrize("before", range(40, 75))
def test_pieces_hide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    monkeypatch.setattr(blanking, "_CHUNK_BYTES", 64)
    path = tmp_path / "trace.pb"
    text = b"." * before + b"/mnt/people/someone/x /tmp/of_someone/y /home/me/z" + b"." * 100
    path.write_bytes(text)
    blank(path)
    left = path.read_bytes()
    assert len(left) == len(text)
    assert [word for word in (b"someone", b"people", b"home", b"me/") if word in left] == []
    assert [word for word in (b"/x ", b"/y ", b"/z.") if word not in left] == []
