"""Names of local copies."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.read.inputs.remote.places import local_name, local_paths


def test_usual_names_are_unchanged():
    paths = ["run.json", "process-7/steps.jsonl", "process-7/window-1/host.xplane.pb"]
    assert local_paths(paths) == {path: path for path in paths}


def test_names_that_would_collide():
    paths = ["a/b c", "a/b_c", "A/b_c", "a", "a/B_C", "a/b/c"]
    assert local_paths(paths) == {
        "a/b c": "a/b_c",
        "a/b_c": "a/2-b_c",
        "A/b_c": "2-A/b_c",
        "a": "3-a",
        "a/B_C": "a/3-B_C",
        "a/b/c": "a/b/c",
    }


def test_many_names_that_would_collide():
    """The time is linear in their number."""
    names = [chr(0x1D400 + n) + "/" * (n % 2) + "x" * 200 for n in range(500)]
    names += [f"{n}" + "x" * 200 for n in range(50_000)]
    assert len(set(local_paths(names).values())) == len(names)


def test_a_long_name_keeps_its_end():
    assert local_name("x" * 10_000 + ".json.gz") == "x" * 92 + ".json.gz"
    assert len(local_name("名" * 10_000).encode()) <= 100


PARTS = st.text(st.sampled_from("aAbß ._\\\0\x1b\u202e名\ud800"), min_size=1, max_size=4)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


@given(st.lists(PATHS, max_size=8, unique=True))
@settings(derandomize=True, max_examples=200)
def test_any_names_become_safe_and_distinct(paths):
    found = local_paths(paths)
    assert set(found) == set(paths)
    assert len({local.casefold() for local in found.values()}) == len(paths)
    for local in found.values():
        assert not PurePosixPath(local).is_absolute()
        assert local.isprintable()
        assert all(part and not part.startswith(".") for part in local.split("/"))
