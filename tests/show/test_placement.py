"""The placement of a graph in the reports."""

from __future__ import annotations

import re

from msgspec import structs
from tests.answers.test_placement import DRAWING, placement

from stepwhy.analyse.answers.placement import bounded
from stepwhy.show import html
from stepwhy.show.html.placement import placement_view


def deep(name):
    return placement(DRAWING.replace("rewritten    |", f"{name} |"))


def page(sample, table):
    return html.render(structs.replace(sample("towers"), placement=table))


def test_the_tree_follows_the_scopes():
    tree = placement_view(placement()).tree
    assert [row.name for row in tree.rows] == ["rewritten", "weights"]
    net = tree.branches["net"]
    assert [row.name for row in net.rows] == ["Conv3D", "MatMul", "pruned"]
    assert net.summary == "4 operations · A 2 · B 1 · 1 never ran · 2 copies"
    assert (tree.elsewhere, net.elsewhere, net.branches["in"].elsewhere) == (2, 2, 1)


def test_scope_with_only_one_scope_is_merged():
    tree = placement_view(deep("a/b/c/op")).tree
    assert tree.branches["a"].name == "a/b/c"
    assert tree.branches["a"].path == "a/b/c"


def test_deeply_nested_names_are_not_indented_further():
    tree = placement_view(deep("/".join("abcdefghijklmnop"))).tree
    (branch,) = [b for b in tree.branches.values() if b.path.startswith("a")]
    assert branch.path == "a/b/c/d/e/f/g/h"
    assert branch.rows[0].name == "i/j/k/l/m/n/o/p"


def test_the_page_can_be_read_without_its_script(sample):
    text = page(sample, placement())
    without = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert '<form class="find" hidden>' in without
    assert without.count("<li data-placed=") == 6
    assert '<details data-path="" open>' in without


def test_the_page_escapes_names(sample):
    assert "<img" not in page(sample, deep("<img src=x>"))


def test_page_names_what_it_leaves_out(sample):
    assert "leaves out 3 operations" in page(sample, bounded(placement(), most=3))


def test_no_section_without_a_placement(sample):
    assert 'id="placement"' not in page(sample, None)
