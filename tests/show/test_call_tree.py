"""The data of the flame graph and the call tree on the page."""

import base64
import json
import zlib

from stepwhy.analyse.facts import Facts
from stepwhy.engine.profile import profiles
from stepwhy.result.profile import Cost, ProfileNode, ProfileResult
from stepwhy.result.timeline import DRAWN_CATEGORIES, Timeline
from stepwhy.show import html
from stepwhy.show.html.call_tree import tree_view
from stepwhy.trace.notation import parse

TRACE = """
unit: 1 ms
framework: pytorch
main   step   |[--------][--------]|
main   op     |   ooooooo  oooooooo|  o=aten::mm {source: train.py(7): step}
main   launch |    l         l     |  l=cudaLaunchKernel
GPU:0  kernel |     kkk       kkk  |  k=void cutlass::Kernel<int>(int)
arrows: l -> k
"""


def view_of(sample, trace=TRACE):
    views = profiles(Facts(parse(trace)), "run")
    return tree_view(Timeline(0, (), {}, 0, views=views), sample("input_bound"))


def data_of(view):
    return json.loads(zlib.decompress(base64.b64decode(view.data)))


def test_the_page_has_each_node_with_its_own_times(sample):
    view = view_of(sample)
    data = data_of(view)
    assert view.has_both
    assert [names[0] for names in data["names"]][:2] == ["train.py(7): step", "aten::mm"]
    assert data["parent"][:2] == [-1, 0]
    assert sum(data["device"]) == 3_000_000
    assert DRAWN_CATEGORIES[data["category"][data["kind"].index("kernel")]] == "compute"


def test_a_kernel_has_its_short_name_beside_the_whole_one(sample):
    names = data_of(view_of(sample))["names"]
    (short, whole) = next(names for names in names if len(names) == 2)
    assert whole == "void cutlass::Kernel<int>(int)"
    assert len(short) < len(whole)


def test_the_share_in_no_line_is_below_it(sample):
    assert any("No line of the program is credited with" in note for note in view_of(sample).notes)


def test_a_trace_without_device_has_nothing_to_choose(sample):
    host = "\n".join(line for line in TRACE.splitlines() if not line.startswith(("GPU", "arrows")))
    assert not view_of(sample, host).has_both


def test_a_page_without_a_tree_has_no_tabs(sample):
    assert tree_view(Timeline(0, (), {}, 0), sample("input_bound")) is None
    assert 'role="tablist"' not in html.render(sample("input_bound"))


def test_the_largest_tree_takes_a_small_part_of_the_page(sample):
    nodes = tuple(
        ProfileNode(f"{i * 7919:x} " * 200, None, 0, Cost(1, 1, i), Cost(1, 1, i), "kernel")
        for i in range(4000)
    )
    view = ProfileResult("run", "tree", 1, Cost(1, 4000, 4000), nodes)
    found = tree_view(Timeline(0, (), {}, 0, views=(view,)), sample("input_bound"))
    assert len(found.data) < 1_000_000
    assert all(len(name) <= 403 for names in data_of(found)["names"] for name in names)
