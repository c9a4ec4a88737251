"""Edits as text: what is read is what is written, and what cannot be changed is refused."""

import re
from pathlib import Path

import pytest

from stepwhy.base.errors import EditError
from stepwhy.result.edits import ALLOWED, Edit, family_of, is_edit, parse_edit


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("input=free", Edit("input", "free")),
        ("input=workers:4", Edit("input", "workers", count=4)),
        ("kernels:*gemm*=2x", Edit("kernels", "faster", "*gemm*", factor=2.0)),
        ("ops:aten::dropout=gone", Edit("ops", "gone", "aten::dropout")),
        ("ops:MatMul=on:GPU:0", Edit("ops", "moved", "MatMul", device="GPU:0")),
        ("copies:h2d=25GB/s", Edit("copies", "bandwidth", "h2d", bytes_per_s=25e9)),
        ("launches=0.5x", Edit("launches", "faster", factor=2.0)),
        ("communication=1.5x", Edit("communication", "faster", factor=1.5)),
        ("communication=balanced", Edit("communication", "balanced")),
        ("threads=2", Edit("threads", "count", count=2)),
        ("stage:3=even", Edit("stage", "even", "3")),
        ("rank=even", Edit("rank", "even")),
        ("link:6-7=even", Edit("link", "even", "6-7")),
        ("group:tp=2x", Edit("group", "faster", "tp", factor=2.0)),
        ("variance=gone", Edit("variance", "gone")),
        ("ranks=2x", Edit("ranks", "faster", factor=2.0)),
    ],
)
def test_a_text_and_its_edit(text, edit):
    assert parse_edit(text) == edit
    assert str(edit) == text


@pytest.mark.parametrize(
    ("text", "next_action"),
    [
        ("faster", "Write WHAT[:PATTERN]=CHANGE, such as input=free"),
        ("loss=gone", f"Use one of {', '.join(ALLOWED)}"),
        ("input=2x", ("Of input, these can be predicted: input=free, input=workers:2, "
                     "input=prefetch, input=gone")),
        ("kernels=0.5x", ("Of kernels, these can be predicted: kernels=gone, kernels=2x, "
                         "kernels=fused, kernels=replaced")),
        ("launches=2x", "Of launches, these can be predicted: launches=gone, launches=0.5x"),
        ("input=workers:0", ("Of input, these can be predicted: input=free, input=workers:2, "
                            "input=prefetch, input=gone")),
        ("link:6=even", "Write link:6-7=even"),
        ("group=2x", "Write group:dp=2x"),
        ("variance=2x", "Of variance, these can be predicted: variance=gone"),
    ],
)  # fmt: skip
def test_what_is_no_edit_is_refused_with_what_would_be(text, next_action):
    with pytest.raises(EditError) as caught:
        parse_edit(text)
    assert caught.value.todo == next_action


def test_every_allowed_change_has_a_text():
    for what, changes in ALLOWED.items():
        for change in changes:
            where = {"link": "6-7", "group": "dp"}.get(what, "")
            edit = Edit(what, change, where, factor=2.0, count=2, bytes_per_s=1e9, device="GPU:0")
            assert parse_edit(str(edit)).change == change


def test_the_reference_lists_every_part_of_a_step():
    page = (Path(__file__).parents[2] / "docs/reference/edits.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`([a-z]+)[:=`]", cell)}
    assert listed >= set(ALLOWED)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("python=gone", "removed"),
        ("storage=2x", "removed"),
        ("input=free", "removed"),
        ("input=workers:2", "overlapped"),
        ("storage=overlapped", "overlapped"),
        ("ops=fused", "replaced"),
        ("python=replaced", "replaced"),
        ("ops:MatMul=2x", "replaced"),
        ("threads=2", "replaced"),
    ],
)
def test_the_kind_of_an_edit(text, family):
    assert family_of(parse_edit(text)) == family


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input=free", True),
        ("kernels:*gemm*=2x", True),
        ("ops:aten::add_=gone", True),
        ("copies:h2d=12.5GB/s", True),
        ("loss=gone", True),  # no part of a step, which is said
        ("trace.json", False),
        ("date=2026/trace.json", False),
        ("a=b.json", False),
        ("https://host/trace?name=a", False),
        ("C:/traces/a=b", False),
    ],
)
def test_an_edit_is_told_from_a_path(text, expected):
    assert is_edit(text) is expected
