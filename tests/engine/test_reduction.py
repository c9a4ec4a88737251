"""Ranks that are reduced one by one: what is freed changes no result."""

import gzip

import numpy as np
import pytest

from stepwhy.base.errors import NoTracesError, SeveralRunsError
from stepwhy.base.redaction import Redactor
from stepwhy.engine import explain, reduction
from stepwhy.engine.explain import read_ranks
from stepwhy.engine.merging import Parts, ranks_of_run
from stepwhy.engine.reduction import reduce_file, works_of
from stepwhy.read.inputs.places import resolve
from stepwhy.show import json
from tests.engine.rank_files import write_set

RANKS, STEPS = 4, 8


def written(folder, *, late=1):
    """The files of four ranks, one of which is late."""
    work = 2000 * np.random.default_rng(3).normal(1, 0.003, (RANKS, STEPS))
    work[late] += 600
    return write_set(folder, work)


def cut(path):
    """Cut a file off in the middle, after compressing it."""
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    path.with_name(f"{path.name}.gz").write_bytes(packed[: len(packed) // 2])


def damage(paths):
    """Cut one rank off, give one twice, and make one unreadable."""
    cut(paths[0])
    paths[2].with_name("again.json").write_bytes(paths[2].read_bytes())
    paths[3].write_text("no trace")


@pytest.mark.parametrize("damaged", [False, True])
def test_a_freed_trace_is_read_again(damaged, tmp_path, monkeypatch):
    paths = written(tmp_path)
    if damaged:
        damage(paths)
    kept = json.render(explain([str(tmp_path)]))
    monkeypatch.setitem(read_ranks.__globals__, "_MOST_KEPT", -1)
    assert json.render(explain([str(tmp_path)])) == kept


def parts_of(folder):
    works = works_of(resolve([str(folder)]), Redactor(distinct=True), predict=True)
    return [reduce_file(work) for work in works]


def test_parts_merge_in_any_order(tmp_path):
    damage(written(tmp_path))
    parts = parts_of(tmp_path)
    expected = ranks_of_run(Parts(parts))
    shuffled = Parts()
    for place in (3, 1, 4, 2, 0, 1):  # one of them twice
        shuffled.add(parts[place])
    assert ranks_of_run(shuffled) == expected
    for split in range(len(parts)):
        first, second = Parts(parts[:split]), Parts(parts[split:])
        second.merge(first)
        assert len(second) == len(parts)
        assert ranks_of_run(second) == expected


def test_what_cannot_be_read_is_named(tmp_path):
    damage(written(tmp_path))
    ranks, notes = ranks_of_run(Parts(parts_of(tmp_path)))
    assert [one.meta.rank for one in ranks] == [0, 1, 2]
    assert any("rank3.json" in note for note in notes)


def test_files_of_other_runs_are_only_read(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    write_set(tmp_path / "other", np.full((2, STEPS), 1000.0))
    written(tmp_path)
    analysed = []
    analyse = reduction.analyse
    monkeypatch.setattr(
        reduction,
        "analyse",
        lambda one, **options: analysed.append(one.path) or analyse(one, **options),
    )
    with pytest.raises(SeveralRunsError, match="6 different runs"):
        explain([str(tmp_path)])
    assert len(analysed) == 4  # it shows after two, four, eight ... files


def test_nothing_readable_names_the_first_reason(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("no trace")
    with pytest.raises(NoTracesError, match=r"none of the 2 files.*a\.json"):
        explain([str(tmp_path)])


def test_each_file_numbers_its_secrets_by_itself(tmp_path):
    for rank, path in enumerate(written(tmp_path)):
        lines = f"/home/user{rank}x/train.py(3)", f"/home/other{rank}x/train.py(4)"
        text = path.read_text().replace("gemm", f"gemm {lines[rank % 2]} {lines[1 - rank % 2]}")
        path.write_text(text)
    names = {
        operation.name
        for part in parts_of(tmp_path)
        for one in part.ranks
        for operation in one.rank.operations
        if operation.name.startswith("gemm")
    }
    assert names == {"gemm ~/train.py(3) ~2/train.py(4)", "gemm ~/train.py(4) ~2/train.py(3)"}
