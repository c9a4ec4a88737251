"""The call tree as a profile for speedscope."""

import gzip
import json

from stepwhy.engine.profile import profile
from stepwhy.show.export.speedscope import write_speedscope
from stepwhy.trace.notation import parse

TRACE = """
unit: 1 ms
framework: pytorch
main   step   |[--------][--------]|
main   op     |   ooooooo  oooooooo|  o=aten::mm {source: train.py(7): step}
main   launch |    l         l     |  l=cudaLaunchKernel
GPU:0  kernel |     kkk       kkk  |  k=gemm
arrows: l -> k
"""


def written(tmp_path, text=TRACE, name="x.speedscope.json"):
    write_speedscope(parse(text), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def stacks(content, profile):
    names = [frame["name"] for frame in content["shared"]["frames"]]
    found = zip(profile["samples"], profile["weights"], strict=True)
    return {tuple(names[frame] for frame in stack): weight for stack, weight in found}


def test_device_and_host_have_a_profile_each(tmp_path):
    content = written(tmp_path)
    device, host = content["profiles"]
    assert stacks(content, device) == {("train.py(7): step", "aten::mm", "gemm"): 3_000_000}
    assert device["endValue"] == 3_000_000
    assert ("train.py(7): step", "aten::mm", "cudaLaunchKernel") in stacks(content, host)


def test_it_adds_up_to_the_tree(tmp_path):
    content = written(tmp_path)
    total = profile(parse(TRACE), "trace.json", "tree").total
    assert [one["endValue"] for one in content["profiles"]] == [total.device_ns, total.host_ns]
    assert all(sum(one["weights"]) == one["endValue"] for one in content["profiles"])


def test_a_name_that_ends_in_gz_is_compressed(tmp_path):
    assert written(tmp_path, name="x.json.gz") == written(tmp_path)


def test_a_trace_without_work_has_no_profile(tmp_path):
    assert written(tmp_path, "unit: 1 ms\nmain   op |          |")["profiles"] == []
