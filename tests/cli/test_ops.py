"""The command `stepwhy ops`, compared with TensorFlow's own timeline and profiler."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.trace.notation import parse
from stepwhy.trace.store import save
from tests.kineto_samples import sample

LAB = Path(__file__).resolve().parents[2] / "lab" / "tf1" / "matmul" / "matmul.py"


def invoke(*args):
    outcome = CliRunner().invoke(cli, [str(a) for a in args])
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(sample("2024 fractional"))
    return path


def test_table_starts_with_the_total_and_respects_top(trace):
    lines = invoke("ops", trace, "--top", 2).strip().splitlines()
    assert lines[0].startswith("By op  2 of ")
    assert lines[2].endswith("(all)")
    assert len(lines) == 5


def test_json_has_every_node_with_its_parent(trace):
    result = json.loads(invoke("ops", trace, "--view", "op", "--json"))
    assert result["schema"] == "stepwhy.ops/1"
    assert sum(n["own"]["device_ns"] for n in result["nodes"]) == result["total"]["device_ns"]
    assert {n["parent"] for n in result["nodes"]} == {None}


def test_reason_for_a_view_that_is_not_available(trace):
    assert "does not record which operation reads from which" in invoke(
        "ops", trace, "--view", "graph"
    ).replace("\n", " ")
    assert json.loads(invoke("ops", trace, "--view", "graph", "--json"))["nodes"] == []


LINES = """
unit: 1 ms
framework: pytorch
main   step   |[--------][--------]|
main   op     |   ooooooo  oooooooo|  o=aten::mm {source: train.py(7): step}
"""


def test_lines_add_up_to_the_step(tmp_path):
    path = tmp_path / "trace.stepwhy"
    save(parse(LINES), path)
    result = json.loads(invoke("ops", path, "--view", "line", "--json"))
    assert sum(row["time_ns"] for row in result["lines"]["lines"]) == result["lines"]["wall_ns"]
    lines = invoke("ops", path, "--view", "line").splitlines()
    assert lines[1] == "By line  2 of 2, longest first, mean of 2 steps"
    assert lines[2].endswith("train.py(7): step")
    assert "(other rows)" in invoke("ops", path, "--view", "line", "--top", "1")


def test_the_tree_shows_what_each_line_calls(tmp_path):
    path = tmp_path / "trace.stepwhy"
    save(parse(LINES), path)
    result = json.loads(invoke("ops", path, "--view", "tree", "--json"))
    assert [(node["name"], node["kind"], node["parent"]) for node in result["nodes"]] == [
        ("train.py(7): step", "line", None),
        ("aten::mm", "operation", 0),
        ("(line not known)", "rest", None),
    ]
    lines = invoke("ops", path, "--view", "tree").splitlines()
    assert lines[1] == "Call tree  3 of 3, longest first, mean of 2 steps"
    assert [line.split()[-1] for line in lines[4:6]] == ["step", "aten::mm"]
    assert "No line of the program is credited with" in " ".join(lines)


def test_a_trace_without_lines_has_no_view_by_line(trace):
    printed = " ".join(invoke("ops", trace, "--view", "line").split())
    assert "it records no lines of the program" in printed


# --- TensorFlow's profile of the same run ---

PROFILES = """
import json, sys
from tensorflow.compat import v1 as tf
sys.path.insert(0, sys.argv[1])
import matmul
tf.disable_v2_behavior()
fetches = matmul.build(300, 400, 200)
# Without graph optimizers: the profiler does not know the operations that they insert.
rewrites = tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=-1))
rewrites.rewrite_options.disable_meta_optimizer = True
with tf.Session(config=tf.ConfigProto(graph_options=rewrites)) as session:
    session.run(fetches)
    matmul.trace(session, fetches)
metadata = tf.RunMetadata.FromString(open("run_metadata.pb", "rb").read())
options = tf.profiler.ProfileOptionBuilder.time_and_memory(min_micros=0, min_bytes=0)
options = tf.profiler.ProfileOptionBuilder(options).with_empty_output().build()

def cost(node, of):
    fields = ("exec_micros", "requested_bytes", "peak_bytes", "residual_bytes", "output_bytes")
    return [getattr(node, of + f) for f in fields]

def walk(node, of, found):
    for child in node.children:
        found[child.name] = cost(child, of)
        walk(child, of, found)
    return found

profiles = {}
for cmd, of in (("op", ""), ("scope", "total_")):
    root = tf.profiler.profile(session.graph, run_meta=metadata, cmd=cmd, options=options)
    profiles[cmd] = walk(root, of, {})
json.dump(profiles, open("profiles.json", "w"))
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory, forks):
    pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("matmul")
    forks("tensorflow").check_output(PROFILES, folder, str(LAB.parent))
    return folder


@pytest.mark.framework
def test_the_timeline_agrees_with_tensorflows_event_for_event(traced):
    invoke("export", traced / "run_metadata.pb", "--out", traced / "ours.json", "--overwrite")
    ours = json.loads((traced / "ours.json").read_bytes())
    theirs = json.loads((traced / "timeline.json").read_bytes())
    base_us = ours["baseTimeNanoseconds"] / 1000
    kinds = {"observed"}
    drawn = [e for e in ours["traceEvents"] if e["ph"] == "X" and e["cat"] not in kinds]
    shown = [e for e in theirs["traceEvents"] if e["ph"] == "X"]
    # TensorFlow names the event of a node by its op in the spelling of the runtime, as we do.
    assert Counter((e["name"], e["args"]["node"]) for e in drawn) == Counter(
        (e["name"], e["args"]["name"]) for e in shown
    )
    by_node = {e["args"]["node"]: e for e in drawn}
    processes = defaultdict(set)
    for event in shown:
        own = by_node[event["args"]["name"]]
        # It rounds start and end down to microseconds separately; doubles are exact to a quarter.
        assert abs(own["ts"] + base_us - event["ts"]) <= 1.5
        assert abs(own["dur"] - event["dur"]) <= 1.5
        processes[event["pid"]].add(own["pid"])
    assert [len(own) for own in processes.values()] == [1] * len(processes)
    assert len(set.union(*processes.values())) == len(processes)


@pytest.mark.framework
def test_tensorflows_arrows_are_among_ours(traced):
    invoke("export", traced / "run_metadata.pb", "--out", traced / "ours.json", "--overwrite")
    ours = json.loads((traced / "ours.json").read_bytes())
    theirs = json.loads((traced / "timeline.json").read_bytes())["traceEvents"]
    base_us = ours["baseTimeNanoseconds"] / 1000
    arrivals = [e["ts"] + base_us for e in ours["traceEvents"] if e["ph"] == "f"]
    for event in (e for e in theirs if e["ph"] == "t"):
        assert any(abs(at - event["ts"]) <= 1.5 for at in arrivals)
    assert len(arrivals) >= sum(e["ph"] == "t" for e in theirs)


@pytest.mark.framework
@pytest.mark.parametrize("view", ["op", "scope"])
def test_the_profile_agrees_with_tensorflows(traced, view):
    profile = json.loads((traced / "profiles.json").read_bytes())[view]
    result = json.loads(invoke("ops", traced / "run_metadata.pb", "--view", view, "--json"))
    ours = {node["name"]: node["total"] for node in result["nodes"]}
    compared = 0
    for name, (micros, requested, peak, residual, output) in profile.items():
        if not micros:
            assert ours.get(name) is None  # built, but never run
            continue
        if view == "op" and name.startswith("_retval_"):
            # Nodes added by the runtime have no type there, so their name is used.
            assert ours["_Retval"]["count"] == 2
            continue
        cost = ours[name]
        # Each run is rounded to whole microseconds, and shorter ones up to one.
        assert abs((cost["device_ns"] + cost["host_ns"]) / 1000 - micros) <= cost["count"] + 1
        assert (cost["requested_bytes"], cost["peak_bytes"]) == (requested, peak)
        assert (cost["residual_bytes"], cost["output_bytes"] or 0) == (residual, output)
        compared += 1
    assert compared >= 5
