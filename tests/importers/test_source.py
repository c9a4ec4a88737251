"""An input as importers see it."""

from stepwhy.importers.source import HEAD_BYTES, Source


def test_the_head_is_the_beginning():
    assert Source(bytes(HEAD_BYTES + 1), "x").head == bytes(HEAD_BYTES)
    assert Source(b"ab", "x").head == b"ab"


def test_files_beside_it(tmp_path):
    (tmp_path / "notes.json").write_bytes(b"{}")
    source = Source(b"", "x", tmp_path / "trace.json")
    assert source.beside("notes.json") == b"{}"
    assert source.beside("absent.json") is None
    assert Source(b"", "x").beside("notes.json") is None
