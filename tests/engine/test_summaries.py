"""The bytes of a part: what is decoded equals what was encoded, and damage is noticed."""

import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwhy.analyse.ranks.calls import Position, RunCalls
from stepwhy.base.errors import CorruptInputError, InputError, NewerFormatError, NotFoundError
from stepwhy.engine import summaries
from stepwhy.engine.packed_columns import BadColumnError, pack, unpack
from stepwhy.engine.reduction import Named, Part
from stepwhy.engine.summaries import VERSION, decode, encode
from stepwhy.read.inputs.reduced import MAGIC
from stepwhy.trace import Meta
from tests.analyse.test_hangs import calls
from tests.engine.test_reduction import parts_of, written

LONGEST = 2**63 - 1
HEAD = len(MAGIC) + 2


@given(st.lists(st.integers(-LONGEST - 1, LONGEST)))
def test_any_column_is_unpacked_as_it_was(values):
    column = np.array(values, dtype=np.int64)
    found = unpack(pack(column))
    assert found.dtype == np.int64
    assert found.tolist() == values


def test_regular_columns_are_small():
    assert len(pack(np.arange(10**12, 10**12 + 10**9, 10**6))) < 40
    assert len(pack(np.full(1000, 7))) < 40


@pytest.mark.parametrize("cut", [0, 5, -1])
def test_a_damaged_column_is_noticed(cut):
    with pytest.raises(BadColumnError):
        unpack(pack(np.array([1, 500, 2]))[:cut])


def equal(one, other):
    """Whether two parts are equal, arrays included; the traces are left out."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, msgspec.Struct):
        fields = [name for name in one.__struct_fields__ if name != "detail"]
        return all(equal(getattr(one, name), getattr(other, name)) for name in fields)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def test_a_part_is_decoded_as_it_was(tmp_path):
    written(tmp_path)
    for part in parts_of(tmp_path):
        data = encode(part)
        assert equal(part, decode(data))
        assert len(data) < 4_000


def with_calls(part):
    """A part whose ranks have entered collectives, two of which have ended."""
    entered = RunCalls((calls(0, 1, 1, 0),), (Position(0, "train.py(7): step", 9, 5, 1),), 2)
    ranks = tuple(msgspec.structs.replace(one, calls=entered) for one in part.ranks)
    return msgspec.structs.replace(part, ranks=ranks)


def test_the_collectives_of_a_part_are_decoded_as_they_were(tmp_path):
    written(tmp_path)
    part = with_calls(parts_of(tmp_path)[0])
    assert equal(part, decode(encode(part)))


def test_early_parts_have_no_durations_of_collectives(tmp_path, monkeypatch):
    written(tmp_path)
    part = with_calls(parts_of(tmp_path)[0])
    monkeypatch.setattr(summaries, "_COLUMNS_OF_CALLS", summaries._COLUMNS_OF_CALLS[:-1])
    early = encode(part)
    monkeypatch.undo()
    assert equal(part, decode(early))


def test_what_is_not_analysed_and_errors_are_kept():
    part = Part(3, (Named("here", Meta("kineto", rank=2)),), ("a note",))
    assert decode(encode(part)) == part
    error = decode(encode(Part(1, error=NotFoundError("It is gone", "Look elsewhere")))).error
    assert (type(error), error.what, error.todo) == (NotFoundError, "It is gone", "Look elsewhere")


def test_errors_of_other_classes_are_no_code():
    class visible(InputError):  # noqa: N801, N818 - what `stepwhy.base.errors` has, but no error
        pass

    part = Part(1, error=visible("It is gone", "Look elsewhere"))
    assert type(decode(encode(part)).error) is InputError


def test_damaged_bytes_are_refused(tmp_path):
    written(tmp_path)
    data = encode(parts_of(tmp_path)[0])
    body = zlib.decompress(data[HEAD:])
    ends = (data[:HEAD], data[:-9], data[:HEAD] + zlib.compress(body[:-5]))
    for damaged in (*ends, data[:HEAD] + zlib.compress(body.replace(b"dur_ns", b"durans"))):
        with pytest.raises(CorruptInputError, match="rank0 is damaged"):
            decode(damaged, "rank0")


def test_a_part_of_a_later_version_is_refused():
    later = MAGIC + (VERSION + 1).to_bytes(2, "little")
    with pytest.raises(NewerFormatError, match="later version"):
        decode(later)


def test_secrets_are_replaced_before_a_part_is_encoded(tmp_path):
    for path in written(tmp_path):
        path.write_text(path.read_text().replace("gemm", "gemm /home/smithers/train.py(3)"))
    for part in parts_of(tmp_path):
        body = zlib.decompress(encode(part)[HEAD:])
        assert b"smithers" not in body
        assert b"gemm ~/train.py(3)" in body
