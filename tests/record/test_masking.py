"""Masking of secrets and private names in profiler files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.redaction.markers import ENVIRONMENT, HARMLESS, HOST, MARKERS

from stepwhy.record.core import masking
from stepwhy.record.core.masking import mask_file, masked

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
        (b"/tmp/torchinductor_someone/ab", b"/tmp/torchinductor_[user*]/ab"),
        (b"/scratch/someone/x", b"/scratch/[user*]/x"),
        (b"awesomeone/x someone", b"awesomeone/x [user*]"),
        (b"", b""),
    ],
)
def test_paths_keep_their_end_and_files_their_length(
    tmp_path: Path, written: bytes, kept: bytes
) -> None:
    path = tmp_path / "trace.pb"
    path.write_bytes(written)
    mask_file(path)
    assert path.read_bytes() == kept
    assert len(kept) == len(written)


@pytest.mark.parametrize("before", range(40, 75))
def test_chunks_hide_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(masking, "_CHUNK_BYTES", 64)
    path = tmp_path / "trace.pb"
    text = b"." * before + b"/mnt/people/someone/x /tmp/of_someone/y /home/me/z" + b"." * 100
    path.write_bytes(text)
    mask_file(path)
    left = path.read_bytes()
    assert len(left) == len(text)
    assert [word for word in (b"someone", b"people", b"home", b"me/") if word in left] == []
    assert [word for word in (b"/x ", b"/y ", b"/z.") if word not in left] == []


# --- Every kind of secret, in every kind of file ---


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("stepwhy.base.redaction.redactor.machine_name", lambda: HOST)
    monkeypatch.setattr(masking._Current, "environ", None)


# Tags of text fields of protobuf messages, some of which look like part of a text.
TAGS = b"\x0a\x12\x1a\x22\x2a\x32"


def field(tag: int, text: bytes) -> bytes:
    length = len(text)
    size = bytes([length]) if length < 0x80 else bytes([length & 0x7F | 0x80, length >> 7])
    return bytes([tag]) + size + text


def fields(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        tag, length, begin = data[at], data[at + 1], at + 2
        if length >= 0x80:
            length, begin = (length & 0x7F) + (data[at + 2] << 7), at + 3
        assert tag in TAGS
        assert begin + length <= len(data)
        found.append((tag, data[begin : begin + length]))
        at = begin + length
    return found


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("tag", TAGS)
def test_messages_keep_their_fields_and_lose_their_secrets(tmp_path: Path, tag: int) -> None:
    path = tmp_path / "trace.pb"
    for marker, (text, secret) in MARKERS.items():
        texts = [
            *((tag, (" " * n + text).encode()) for n in range(100)),
            *((tag, b"loss/gradient " * n + text.encode()) for n in (10, 20)),
        ]
        path.write_bytes(b"".join(field(*one) + field(tag, b"after") for one in texts))
        mask_file(path)
        kept = fields(path.read_bytes())
        assert [(t, len(x)) for t, x in kept[::2]] == [(t, len(x)) for t, x in texts], marker
        assert kept[1::2] == [(tag, b"after")] * len(texts), marker
        assert secret.encode() not in path.read_bytes(), marker


# --- Fields after a secret, whose header may look like part of it ---


def varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def text_field(number: int, text: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(text)) + text


SECRETS = {
    b"password=hunter7hunter": b"hunter7",
    b"step hf" + b"_" + b"aB1" * 12: b"aB1aB1",
    b"https://x/y?token=abcdefgh": b"abcdefgh",
}
FOLLOWING = [
    *(
        text_field(number, b"a" * length) * 4
        for number in (*range(1, 10), 12, 15, 16, 20)
        for length in (5, 33, 40, 60, 66, 100, 120, 130)
    ),
    *(
        (bytes([tag]) + varint(value)) * 4
        for tag in range(0x08, 0x48, 8)
        for value in (5, 40, 70, 100, 130)
    ),
]


def damaged(path: Path, messages: list[bytes], following: list[bytes]) -> list[bytes]:
    """Ends of messages that were changed by masking them in one file."""
    path.write_bytes(b"".join(messages))
    mask_file(path)
    left, position, found = path.read_bytes(), 0, []
    for message, rest in zip(messages, following, strict=True):
        position += len(message)
        found += [rest] * (left[position - len(rest) : position] != rest)
    return found


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("number", range(1, 6))
def test_fields_after_a_secret_keep_every_byte(tmp_path: Path, number: int, text: bytes) -> None:
    path, before = tmp_path / "trace.pb", text_field(number, text)
    assert damaged(path, [before + rest for rest in FOLLOWING], FOLLOWING) == []
    assert SECRETS[text] not in path.read_bytes()


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("number", range(1, 4))
def test_nested_fields_after_a_secret_keep_every_byte(
    tmp_path: Path, number: int, text: bytes
) -> None:
    path, before = tmp_path / "trace.pb", text_field(number, text)
    ascending = [rest for rest in FOLLOWING if rest[0] >= number << 3]
    messages = [text_field(1, text_field(2, before + rest)) for rest in ascending]
    assert damaged(path, messages, ascending) == []
    assert SECRETS[text] not in path.read_bytes()


@pytest.mark.parametrize("chunk", [64, 100, 1000])
def test_neighbouring_secrets_are_all_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(masking, "_CHUNK_BYTES", chunk)
    secrets = [b"%02d_password=zq9vn%030d" % (n, n) for n in range(50)]
    path = tmp_path / "trace.pb"
    path.write_bytes(b"".join(text_field(8, secret) for secret in secrets))
    mask_file(path)
    left = path.read_bytes()
    kept = [left[at : at + 14] for at in range(0, len(left), 49)]
    assert kept == [b"B/%02d_password=" % n for n in range(50)]
    assert b"zq9vn" not in left


def test_text_with_line_breaks_is_not_a_message(tmp_path: Path) -> None:
    # Parsed as a message, it would be two fields, of 33 and 113 bytes.
    text = b"z!a\nb password=" + b"zq9vn" * 27
    path = tmp_path / "trace.pb"
    path.write_bytes(text_field(1, text))
    mask_file(path)
    assert b"zq9vn" not in path.read_bytes()


def test_times_after_the_label_of_a_node_are_unchanged(tmp_path: Path) -> None:
    step_stats_pb2 = pytest.importorskip("tensorflow.core.framework.step_stats_pb2")
    stats = step_stats_pb2.StepStats()
    for micros in range(40, 120):
        stats.dev_stats.add(device="/cpu:0").node_stats.add(
            node_name="MatMul",
            timeline_label="load(password=zq9vn",
            scheduled_micros=micros,
            thread_id=micros,
        )
    path = tmp_path / "run_metadata.pb"
    path.write_bytes(stats.SerializeToString())
    mask_file(path)
    left = step_stats_pb2.StepStats.FromString(path.read_bytes())
    nodes = [device.node_stats[0] for device in left.dev_stats]
    assert [(n.scheduled_micros, n.thread_id) for n in nodes] == [(n, n) for n in range(40, 120)]
    assert {n.timeline_label for n in nodes} == {"load(password=*****"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "trace.pb"
    elsewhere.write_bytes(b"/mnt/people/someone/x.py")
    path.symlink_to(elsewhere)
    with pytest.raises(OSError, match="Not a regular file"):
        mask_file(path)
    assert elsewhere.read_bytes() == b"/mnt/people/someone/x.py"


@pytest.mark.usefixtures("secrets")
def test_json_files_stay_json_and_lose_their_secrets(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    for marker, (text, secret) in MARKERS.items():
        strings = {"name": text, "at": f"x\n{text}\n", "quoted": f'"{text}" \\'}
        path.write_text(json.dumps({**strings, "n": 1.5, "last": "é"}, indent=1))
        size = path.stat().st_size
        mask_file(path)
        kept = json.loads(path.read_bytes())
        assert (path.stat().st_size, kept["n"], kept["last"]) == (size, 1.5, "é"), marker
        assert secret not in path.read_text(), marker


@pytest.mark.usefixtures("secrets")
def test_names_of_traces_are_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "trace.pb"
    path.write_bytes(b"".join(field(0x0A, text.encode()) for text in HARMLESS))
    before = path.read_bytes()
    mask_file(path)
    assert path.read_bytes() == before


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("marker", MARKERS)
def test_logs_and_files_have_the_same_masked_names(tmp_path: Path, marker: str) -> None:
    text, secret = MARKERS[marker]
    name = f"scope/{text}/é"
    path = tmp_path / "graph.pb"
    path.write_bytes(field(0x0A, name.encode()))
    mask_file(path)
    log = masked({name: [name], "n": 1})
    assert fields(path.read_bytes()) == [(0x0A, next(iter(log)).encode())]
    assert log == {next(iter(log)): [next(iter(log))], "n": 1}
    assert secret not in str(log)


def test_a_secret_that_the_program_sets_later_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100, 2))
    monkeypatch.setattr(masking.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(masking._Current, "environ", None)
    assert masked("load zq9vnw4lkz") == "load zq9vnw4lkz"
    monkeypatch.setenv("LATER_TOKEN", "zq9vnw4lkz")
    assert masked("load zq9vnw4lkz") == "load [redacted]"


def test_different_secrets_stay_different() -> None:
    first, second = masked("password=zq9vnw4lk123"), masked("password=zq9vnw4lk124")
    assert first != second
    assert len(first) == len(second)
