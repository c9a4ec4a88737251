"""Findings that others explain."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose import TABLE, load, rank, run_all
from stepwhy.diagnose.shared.causes import with_causes
from stepwhy.diagnose.shared.rule import SPARED
from stepwhy.diagnose.shared.settings import LAUNCHES_WAIT
from stepwhy.diagnose.shared.stable_functions import OF_FUNCTIONS
from stepwhy.result import Evidence, Finding, Saving, parse_edit
from stepwhy.trace import NULL, Kind
from stepwhy.trace.notation import parse

RULES = {load(name).RULE.id: load(name).RULE for name in TABLE}


def found(id_, cost=10):
    return Finding(id_, "found", "Do it", cost)


NO_PIPELINE = parse("main step |[--]|")
PARALLEL = parse("""
main step |[--]|

stages: name   | kind    | consumer    | buffered | parallelism | elements
Prefetch[2]    | tf.data | -           | 1        | -1          | 8
ParallelMap[3] | tf.data | Prefetch[2] | 1        | 2           | 8
""")


def explained(*findings, input_wait=0.0, trace=NO_PIPELINE, has_accelerator=False):
    waits = {"input_wait": input_wait}
    known = {"share": waits.__getitem__, "trace": trace, "has_accelerator": has_accelerator}
    facts = SimpleNamespace(**known)
    return {f.id: f.explained_by for f in with_causes(facts, findings, RULES)}


def test_a_cause_explains_its_symptom_if_it_costs_at_least_half():
    symptom = found("input-bound")
    assert explained(symptom, found("python-preprocessing", 5)) == {
        "input-bound": "python-preprocessing",
        "python-preprocessing": "",
    }
    assert explained(symptom, found("python-preprocessing", 4))["input-bound"] == ""
    clear = Finding("python-preprocessing", "clear", "It is not")
    assert explained(symptom, clear)["input-bound"] == ""


def test_the_costliest_cause_is_named():
    causes = found("python-preprocessing", 8), found("queue-starvation", 6)
    assert explained(found("input-bound"), *causes)["input-bound"] == "python-preprocessing"


def test_another_remedy_for_the_same_time_explains_nothing():
    assert explained(found("input-bound"), found("repeated-preprocessing"))["input-bound"] == ""


def test_work_that_can_be_spared_explains_the_wait_for_it():
    spared = Evidence(SPARED, 6, "ns", "data.py(9): encode")
    cause = replace(found("python-preprocessing", 6), evidence=(spared,))
    assert explained(found("serial-input"), cause)["serial-input"] == "python-preprocessing"
    assert explained(found("serial-input", 20), cause)["serial-input"] == ""
    assert explained(found("serial-input"), found("python-preprocessing"))["serial-input"] == ""


@pytest.mark.parametrize(
    ("has_accelerator", "cause"), [(False, "repeated-preprocessing"), (True, "")]
)
def test_on_a_cpu_known_functions_of_the_data_set_explain_the_wait(has_accelerator, cause):
    share = Evidence(OF_FUNCTIONS, 0.3, "fraction", "data.py(9): distances")
    repeated = replace(found("repeated-preprocessing"), evidence=(share,))
    both = explained(found("serial-input"), repeated, has_accelerator=has_accelerator)
    assert both["serial-input"] == cause


def test_less_work_is_no_alternative_if_batches_are_prepared_in_parallel_already():
    findings = found("input-bound"), found("repeated-preprocessing")
    assert explained(*findings, trace=PARALLEL)["input-bound"] == "repeated-preprocessing"


def test_faster_compute_waits_where_the_step_mostly_waits_for_input():
    findings = (
        found("input-bound", 50),
        found("unfavourable-layout"),
        found("launch-bound"),
        found("memory-headroom", None),
        found("padding"),
        found("exposed-transfer"),
    )
    assert explained(*findings, input_wait=0.5) == {
        "input-bound": "",
        "padding": "input-bound",
        "unfavourable-layout": "input-bound",
        "launch-bound": "input-bound",
        "memory-headroom": "input-bound",
        "exposed-transfer": "",
    }
    assert set(explained(*findings, input_wait=0.4).values()) == {""}


def test_what_the_input_hides_is_not_explained_by_it():
    findings = (found("input-bound", 50), found("python-preprocessing", 40), found("launch-bound"))
    facts = SimpleNamespace(share={"input_wait": 0.5}.__getitem__)
    hidden = {f.id: f.hidden for f in with_causes(facts, findings, RULES)}
    assert hidden == {"input-bound": False, "python-preprocessing": False, "launch-bound": True}


@pytest.mark.parametrize(("share", "cause"), [(1.0, "debug-settings"), (0.4, "")])
def test_launches_that_wait_are_judged_without_the_wait_first(share, cause):
    waiting = replace(
        found("debug-settings", 4), evidence=(Evidence(LAUNCHES_WAIT, share, "fraction"),)
    )
    assert explained(found("launch-bound", 20), waiting)["launch-bound"] == cause


def test_a_session_that_prepares_a_grown_graph_in_each_run_takes_long():
    causes = explained(found("session-overhead", 20), found("graph-growth", 10))
    assert causes == {"session-overhead": "graph-growth", "graph-growth": ""}


def test_memory_grows_by_what_is_compiled_again():
    assert explained(found("memory-growth", None), found("recompilation"))["memory-growth"] == (
        "recompilation"
    )
    assert explained(found("memory-growth", None), found("gc-pause"))["memory-growth"] == ""


def test_steps_become_slower_by_a_graph_that_grows():
    causes = explained(found("step-growth", 9), found("memory-growth", None), found("graph-growth"))
    assert causes["step-growth"] == causes["memory-growth"] == "graph-growth"


@pytest.mark.parametrize(("share", "first"), [(0.86, "slow-startup"), (0.3, "launch-bound")])
def test_a_start_that_takes_most_of_the_run_comes_first(share, first):
    start = replace(
        found("slow-startup", None), evidence=(Evidence("share of the run", share, "fraction"),)
    )
    assert rank([found("launch-bound", 2), start])[0].id == first


def test_explained_findings_come_after_all_others_that_were_found():
    symptom = Finding("input-bound", "found", "Do it", 10, explained_by="python-preprocessing")
    cause, cheap = found("python-preprocessing", 6), found("launch-bound", 1)
    clear = Finding("host-sync", "clear", "It is not")
    assert rank([clear, symptom, cheap, cause]) == (cause, cheap, symptom, clear)


@pytest.mark.parametrize(
    ("loader", "low_ns"), [("_MultiProcessing", 0), ("_SingleProcess", 4_000_000)]
)
def test_copies_may_be_shortened_in_vain_where_workers_are_too_slow(loader, low_ns):
    iterator = f"enumerate(DataLoader)#{loader}DataLoaderIter.__next__"
    trace = parse(
        f"""
        unit: 1 ms
        framework: pytorch
        main   step   |[------------------]|
        main   input  |dddd                |  d={iterator}
        GPU:0  memcpy |    cccccccc        |  c=Memcpy HtoD {{copy: h2d; pageable: yes}}
        GPU:0  kernel |            kkkkkkkk|  k=gemm
        """
    )
    saved = next(f.saving for f in run_all(Facts(trace)) if f.id == "pageable-copy")
    assert (saved.low_ns, saved.high_ns) == (low_ns, 8_000_000)


@pytest.mark.parametrize(("moved", "cause"), [(6_000, "misplaced-op"), (4_000, "")])
def test_copies_for_operations_on_the_wrong_device_are_explained_by_them(moved, cause):
    trace = parse(
        """
        unit: 1 ms
        framework: tensorflow
        main   step   |[------------------]|
        GPU:0  memcpy |cccccccc            |  c=MEMCPYHtoD {copy: h2d; bytes: 10 KiB}
        GPU:0  kernel |        kkkkkkkkkkkk|  k=gemm
        """
    )
    copied = (Evidence("copied to and from them per step", moved, "bytes"),)
    wrong = replace(found("misplaced-op", 9), evidence=copied)
    explained = with_causes(Facts(trace), [wrong, found("exposed-transfer", 8)], RULES)
    assert explained[1].explained_by == cause


CALLBACK = """
unit: 1 ms
framework: jax
main     step   |[------------------]|
CPU:0    python |CALLS               |  p=pure_callback.1
GPU:0    memcpy |cccccccc            |  c=MemcpyH2D {copy: h2d; pageable: yes}
GPU:0    kernel |              kkkkkk|  k=gemm
"""


@pytest.mark.parametrize(
    ("calls", "causes"),
    [("pppppppppp", ("host-callback", "host-callback")), ("      pppp", ("pageable-copy", ""))],
)
def test_copies_for_callbacks_are_explained_by_them(calls, causes):
    facts = Facts(parse(CALLBACK.replace("CALLS     ", calls)))
    explained = {f.id: f.explained_by for f in run_all(facts) if f.verdict == "found"}
    assert explained["host-callback"] == ""
    assert (explained["exposed-transfer"], explained["pageable-copy"]) == causes


PROGRAM = """
unit: 1 ms
framework: pytorch
main   step    |[------------------]|
CPU:0  kernel  |          kkkkkkmmmm|  k=aten::conv2d  m=aten::mm
"""


@pytest.mark.parametrize(
    ("device", "edit", "low_ns"),
    [
        ("CPU:0", "input=workers:2", 0),
        ("CPU:0", "input=gone", 2_000_000),
        ("GPU:0", "input=workers:2", 2_000_000),
    ],
)
def test_worker_processes_beside_operations_may_save_nothing(device, edit, low_ns):
    saving = Saving(2_000_000, 9_000_000, "prepare batches in parallel")
    one = replace(found("serial-input"), saving=saving, edit=parse_edit(edit))
    facts = Facts(parse(PROGRAM.replace("CPU:0", device)))
    (bounded,) = with_causes(facts, [one], RULES)
    assert (bounded.saving.low_ns, bounded.saving.high_ns) == (low_ns, 9_000_000)
    assert ("Measure the fix with 'stepwhy try'." in bounded.saving.note) == (low_ns == 0)


INFERENCE = """
    unit: 10 us
    framework: pytorch
    main   step   |[------------------------------------------------]|
    main   op     |aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb |  a=aten::add  b=aten::mul
    main   launch |   l    l    l    l    l    l    l    l    l    l |  l=cudaLaunchKernel
    GPU:0  kernel |    k    k    k    k    k    k    k    k    k    k|  k=add
    arrows: l -> k
"""


@pytest.mark.parametrize(
    ("drawing", "compare"),
    [(INFERENCE, "outputs"), (INFERENCE.replace("k=add", "k=add {phase: backward}"), "losses")],
)
def test_inference_has_no_losses_to_compare(drawing, compare):
    (launching,) = [f for f in run_all(Facts(parse(drawing))) if f.id == "launch-bound"]
    assert launching.fix.compare == compare


@pytest.mark.parametrize(("compiling_ms", "cause"), [(6, "frequent-evaluation"), (4, "")])
def test_what_calls_of_predict_compile_is_explained_by_them(compiling_ms, cause):
    trace = parse(
        f"""
        unit: 1 ms
        framework: tensorflow
        main  step   |[------------------]|
        CPU:0 kernel |          kkkkkkkkkk|  k=MatMul
        marks: start_ns | dur_ns | profiled
        20 ms | 20 ms | 0
        40 ms | 20 ms | 0

        events: kind | start_ns | dur_ns | name
        evaluation | 20 ms | 12 ms             | predict
        trace      | 21 ms | {compiling_ms} ms | Dataset_map_grab_batch
        """
    )
    findings = with_causes(
        Facts(trace), [found("frequent-evaluation"), found("recompilation", 10_000_000)], RULES
    )
    assert findings[1].explained_by == cause


def small(constants=0, unread=0):
    """A step of 100 small operations, the first of which compute constants, or go to waste."""
    line = Timeline(unit_ns=10_000).steps(0, 100)
    for run in range(100):
        name = "aten::add" if run < max(constants, unread) else "aten::mul"
        line.add(line.thread(), Kind.OP, run, run + 1, name=name)
        line.builder.add(
            "step_ops",
            name=line.builder.intern(name),
            padding=0,
            constant=int(run < constants),
            line=NULL,
            unread=int(run < unread),
        )
    return Facts(line.trace(framework="pytorch"))


@pytest.mark.parametrize(("constants", "cause"), [(60, "constant-computation"), (40, "")])
def test_small_operations_that_make_constants_are_explained_by_them(constants, cause):
    findings = [found("eager-loop"), found("constant-computation")]
    assert with_causes(small(constants), findings, RULES)[0].explained_by == cause


@pytest.mark.parametrize(("unread", "cause"), [(60, "discarded-result"), (40, "")])
def test_small_operations_that_nothing_reads_are_explained_by_that(unread, cause):
    findings = [found("eager-loop"), found("discarded-result")]
    assert with_causes(small(unread=unread), findings, RULES)[0].explained_by == cause


@pytest.mark.parametrize(
    ("value", "cause"), [("run_functions_eagerly=1", "debug-settings"), ("JAX_DEBUG_NANS=1", "")]
)
def test_operations_that_a_setting_keeps_from_being_compiled(value, cause):
    settings = replace(found("debug-settings", 4), evidence=(Evidence("what it does", value, ""),))
    assert explained(found("eager-loop"), settings)["eager-loop"] == cause


def test_a_pass_whose_gradients_nothing_uses_is_no_reason_to_add_losses_up():
    both = explained(found("repeated-computation"), found("unused-gradient"))
    assert both == {"repeated-computation": "unused-gradient", "unused-gradient": ""}
    assert explained(found("repeated-computation"))["repeated-computation"] == ""


def test_operations_of_summaries_are_explained_by_these():
    line = Evidence("time at the line that makes summaries", 90, "ns", "train.py(9): log")
    logging = replace(found("logging-stall", 90), evidence=(line,))
    assert explained(logging, found("eager-loop", 100))["eager-loop"] == "logging-stall"
    assert explained(logging, found("eager-loop", 300))["eager-loop"] == ""
    assert explained(found("logging-stall", 90), found("eager-loop", 100))["eager-loop"] == ""
