"""When the longest line is the answer: beside other findings, and by its place among them."""

import pytest
from msgspec.structs import replace
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose import hot_line, rank
from stepwhy.diagnose.hot_line import diagnose, unless_explained
from stepwhy.diagnose.shared.rule import Rule
from stepwhy.engine.pricing import priced
from stepwhy.result import Edit, Evidence, Fix
from stepwhy.trace import NULL, FlowKind, Kind, Phase
from stepwhy.trace.notation import parse

MS = 1_000_000
LINES = Facts(
    parse(
        """
        unit: 1 ms
        framework: pytorch
        main   step   |[------------------][------------------]|
        main   op     | mmmmmm              mmmmmm             |  m=mm {source: a.py(9): f}
        main   op     |        ssssssssssss        ssssssssssss|  s=sub {source: a.py(1): f}

        operands: slice | types | shapes
        s | float32 | 64x1x32,1x64x32,
        """
    )
)


def other(cost_ms):
    cost = None if cost_ms is None else cost_ms * MS
    return Rule("host.a_b", "", "", "").finding(cost, (), Fix("", "", "none"))


def judged(*costs):
    """The findings in order, with other ones of these costs, ms; 12 of 20 ms are of the line."""
    return rank(unless_explained(LINES, [*map(other, costs), diagnose(LINES)]))


def test_it_is_the_answer_where_there_is_no_other():
    (found,) = judged()
    assert found.cost_ns_per_step == 12 * MS
    assert (found.saving.low_ns, found.saving.high_ns) == (6 * MS, 12 * MS)
    assert found.saving.method == "bound"
    assert "A bound" in found.saving.note


def test_a_metric_of_keras_is_more_than_training_needs():
    facts = Facts(
        parse(
            """
            unit: 1 ms
            framework: tensorflow
            main   step   |[------------------]|
            CPU:0  kernel |mmmmmmccccccssssssss|  m=MatMul {source: train.py(9): main}  c=Cast {source: train.py(5): AUC.update_state}  s=Sum {source: train.py(5): AUC.update_state}
            """  # noqa: E501
        )
    )
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert found.evidence[0].where == "train.py(5): AUC.update_state"
    assert (found.saving.low_ns, found.saving.high_ns) == (7 * MS, 14 * MS)
    assert "metric" in found.title
    assert "validation data" in found.fix.text


@pytest.mark.parametrize(("names", "is_found"), [("vmap jacrev", True), ("vmap grad", False)])
def test_a_whole_jacobian_is_more_than_a_product_with_it(names, is_found):
    text = f"""
        unit: 1 ms
        framework: pytorch
        main   step |[------------------]|
        main   op   |mmmmcccccccccccc    |  m=aten::linear {{source: a.py(9): f}}  c=aten::conv2d {{source: a.py(3): slope}}

        samples: role | line | package | called | names | count
        driver | a.py(3): Model.slope | torch | torch: vmap.wrapped | {names} | 12
        driver | a.py(9): Model.f | torch | torch: Linear.forward | model | 8
        """  # noqa: E501
    facts = Facts(parse(text))
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict == "found") is is_found
    if is_found:
        assert found.evidence[0].where == "a.py(3): slope"
        assert (found.saving.low_ns, found.saving.high_ns) == (6 * MS, 12 * MS)
        assert "Jacobian" in found.title
        assert "jvp(function" in found.fix.code


def test_it_comes_before_findings_that_explain_little():
    assert [f.id for f in judged(1)] == ["hot-line", "a-b"]


@pytest.mark.parametrize("cost_ms", [3, 5, None])
def test_it_comes_after_a_finding_that_may_be_right(cost_ms):
    first, second = judged(cost_ms)
    assert (first.id, second.id) == ("a-b", "hot-line")
    assert second.cost_ns_per_step is None


def test_a_finding_about_the_measurement_explains_no_step():
    slow_start = replace(other(None), id="warmup-included")
    first, _ = rank(unless_explained(LINES, [slow_start, diagnose(LINES)]))
    assert (first.id, first.cost_ns_per_step) == ("hot-line", 12 * MS)


def test_it_is_silent_where_a_finding_explains_half_of_the_line():
    first, second = judged(6)
    assert (first.id, second.verdict) == ("a-b", "not_applicable")


def among(*others):
    """The findings in order beside a hot line with 12 of 20 ms, a.py(1): f."""
    hot = diagnose(LINES)
    assert hot.evidence[0].where == "a.py(1): f"
    return rank(unless_explained(LINES, [*others, hot]))


def of_operations(cost_ms, *evidence):
    found = other(cost_ms)
    return replace(found, edit=Edit("ops", "gone"), evidence=evidence)


def time_of(name, ms):
    return Evidence("time of the operation", ms * MS, "ns", name)


def test_it_comes_before_a_finding_elsewhere_that_costs_less_than_half_of_the_line():
    assert [f.id for f in among(of_operations(5, time_of("mm", 5)))] == ["hot-line", "a-b"]
    assert [f.verdict for f in among(of_operations(7, time_of("mm", 6)))] == [
        "found",
        "not_applicable",
    ]


def test_a_known_problem_of_the_line_comes_first():
    first, second = among(of_operations(3, time_of("sub", 3)))
    assert (first.id, second.cost_ns_per_step) == ("a-b", None)
    first, second = among(of_operations(3, Evidence("samples", 0.1, "fraction", "a.py(1): f")))
    assert (first.id, second.cost_ns_per_step) == ("a-b", None)


def test_time_at_other_lines_is_elsewhere():
    found = of_operations(5, Evidence("time at", 5 * MS, "ns", "a.py(9): f"))
    assert among(found)[0].id == "hot-line"


def test_a_category_in_which_the_line_is_not_is_elsewhere():
    waits = replace(other(5), edit=Edit("input", "free"))
    assert among(waits)[0].id == "hot-line"


def test_memory_is_no_answer_to_where_the_time_goes():
    grows = other(None)
    assert among(grows)[0].id == "a-b"
    hot = diagnose(LINES)
    first, _ = rank(unless_explained(LINES, [grows, hot], {"a-b": "memory"}))
    assert first.id == "hot-line"


def test_the_gain_is_predicted_on_a_cpu():
    (found,) = priced(LINES, among())
    assert found.saving.method == "cpu"
    assert found.saving.low_ns < 6 * MS < found.saving.high_ns
    assert "With half of the line, it should save" in found.saving.note


WAITING = Facts(
    parse(
        """
        unit: 1 ms
        framework: pytorch
        main   step   |[------------------][------------------]|
        main   sync   |     ssssssssssssss      ssssssssssssss |  s=wait {source: a.py(1): f}
        main   launch |l                   l                   |  l=cudaLaunchKernel
        GPU:0  kernel | kkk                 kkk                |  k=gemm
        arrows: l -> k
        """
    )
)


def test_no_gain_is_promised_of_a_line_that_waits():
    (found,) = rank(unless_explained(WAITING, [diagnose(WAITING)]))
    assert (found.verdict, found.cost_ns_per_step, found.saving) == ("found", None, None)
    assert "waits for something else" in found.title
    assert "waits for something else" in found.fix.text


@pytest.mark.parametrize(
    ("scope", "verdict"),
    [
        ("jit(step)/jvp()/dot_general", "clear"),
        ("jit(step)/jvp()/sub", "found"),
        (None, "incomplete"),  # a copy of the compiler
    ],
)
def test_what_a_fused_instruction_computes_tells_its_primitive(scope, verdict):
    drawn, line = Timeline().steps(0, 10).steps(10, 20), "train.py(9): loss"
    text = drawn.builder.intern
    for start in (0, 10):
        span = drawn.thread(), Kind.OP, start, start + 9
        drawn.add(*span, name="fusion.6", source=line)
    known = {"other": "jit(step)/add", "fusion.6": scope}
    for name, found in known.items():
        if found:
            texts = {"name": text(name), "source": text(line), "scope": text(found)}
            drawn.builder.add("instruction_scopes", **texts)
    assert diagnose(Facts(drawn.trace(framework="jax"))).verdict == verdict


def choosing(runs, *, compiled=False, framework="pytorch"):
    """Steps of 20 ms, 12 of which a line takes to choose of what a layer has computed."""
    line = Timeline().steps(0, 20, 40)
    for start in (0, 20):
        line.add(line.thread(), Kind.OP, start, start + 8, name="aten::mm", source="a.py(9): f")
        for run in range(runs):
            at = start + 8 + run * 12 / runs
            line.add(
                line.thread(), Kind.OP, at, at + 12 / runs, name="aten::argmax", source="a.py(1): f"
            )
    if compiled:
        names = {"name": "aten::argmax", "source": "a.py(1): f", "scope": "jit(f)/while/argmax"}
        line.builder.add(
            "instruction_scopes", **{k: line.builder.intern(v) for k, v in names.items()}
        )
    return Facts(line.trace(framework=framework))


@pytest.mark.parametrize(("runs", "cost_ms"), [(1, None), (16, 12)])
def test_no_gain_is_promised_of_a_line_that_computes_once_with_what_is_there(runs, cost_ms):
    facts = choosing(runs)
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert found.verdict == "found"
    assert found.cost_ns_per_step == (cost_ms and cost_ms * MS)
    assert (found.saving is None) == (cost_ms is None)


def test_no_gain_is_promised_of_a_compiled_loop():
    facts = choosing(16, compiled=True)
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict, found.cost_ns_per_step, found.saving) == ("found", None, None)


def test_no_gain_is_promised_of_a_line_that_makes_a_layer_in_several_blocks():
    facts = choosing(16, framework="tensorflow")
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict, found.cost_ns_per_step, found.saving) == ("found", None, None)


def test_no_gain_is_promised_of_python():
    line = Timeline().steps(0, 20)
    line.add(line.thread(), Kind.OP, 0, 8, name="aten::mm", source="a.py(9): f")
    line.add(line.thread(), Kind.PYTHON, 8, 20, name="a.py(1): f", source="a.py(1): f")
    facts = Facts(line.trace(framework="pytorch"))
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict, found.cost_ns_per_step, found.saving) == ("found", None, None)
    assert "nothing shows that it can be less" in found.title


@pytest.mark.parametrize(("layer", "verdict"), [("aten::linear", "clear"), ("aten::cat", "found")])
def test_the_gradient_of_a_bias_is_part_of_its_layer(layer, verdict):
    line = Timeline().steps(0, 20)
    span = line.thread(), Kind.OP
    line.add(*span, 0, 6, name=layer, source="a.py(1): f", phase=Phase.FORWARD)
    line.add(*span, 6, 20, name="aten::sum", source="a.py(1): f", phase=Phase.BACKWARD)
    assert diagnose(Facts(line.trace(framework="pytorch"))).verdict == verdict


@pytest.mark.parametrize(("layers", "verdict"), [(1, "found"), (100, "clear")])
def test_python_that_launches_layers_is_theirs(layers, verdict):
    line = Timeline().steps(0, 20)
    for run in range(layers):
        at = run * 20 / layers
        line.add(line.thread(), Kind.OP, at, at + 10 / layers, name="aten::linear")
    for op in [*(["aten::linear", NULL] * layers)]:
        line.builder.add(
            "line_times",
            step=50,
            op=op if op == NULL else line.builder.intern(op),
            line=line.builder.intern("a.py(1): f"),
            dur_ns=10 * MS // layers,
            engine=0,
        )
    assert diagnose(Facts(line.trace(framework="pytorch"))).verdict == verdict


@pytest.mark.parametrize(
    ("shapes", "cost_ms"),
    [("64x32,64x32,", None), ("64x32,32,", None), ("64x1x32,1x64x32,", 12), ("64x32,9x1x32,", 12)],
)
def test_a_gain_is_predicted_of_a_comparison_of_all_pairs(shapes, cost_ms):
    line = Timeline().steps(0, 20)
    line.add(line.thread(), Kind.OP, 0, 8, name="aten::mm", source="a.py(9): f")
    row = line.add(line.thread(), Kind.OP, 8, 20, name="aten::sub", source="a.py(1): f")
    line.builder.add(
        "operands",
        slice=row,
        types=line.builder.intern("float32"),
        shapes=line.builder.intern(shapes),
    )
    facts = Facts(line.trace(framework="pytorch"))
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict, found.cost_ns_per_step) == ("found", cost_ms and cost_ms * MS)


@pytest.mark.parametrize(("pairs", "cost_ms"), [(0, None), (1, 12)])
def test_a_compiled_program_shows_a_comparison_of_all_pairs(pairs, cost_ms):
    line = Timeline().steps(0, 20)
    line.add(line.thread(), Kind.OP, 0, 8, name="dot.1", source="a.py(9): f")
    row = line.add(line.thread(), Kind.OP, 8, 20, name="fusion.1", source="a.py(1): f")
    program = line.builder.intern("step")
    line.builder.add("argument_uses", slice=row, program=program, compares_pairs=pairs)
    facts = Facts(line.trace(framework="pytorch"))
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict, found.cost_ns_per_step) == ("found", cost_ms and cost_ms * MS)


@pytest.mark.parametrize(("result", "cost_ms"), [(1000, None), (16_000, 12)])
def test_the_size_of_a_result_shows_a_comparison_of_all_pairs_in_a_graph(result, cost_ms):
    line, read = Timeline().steps(0, 20), []
    for at in (0, 4):
        span = line.thread(), Kind.OP, at, at + 4
        read.append(line.add(*span, name="Reshape", source="a.py(9): f", bytes=1000))
    span = line.thread(), Kind.OP, 8, 20
    row = line.add(*span, name="Sub", source="a.py(1): f", bytes=result)
    for one in read:
        line.builder.add("flows", source=one, target=row, kind=FlowKind.DATA)
    facts = Facts(line.trace(framework="tensorflow"))
    (found,) = unless_explained(facts, [diagnose(facts)])
    assert (found.verdict, found.cost_ns_per_step) == ("found", cost_ms and cost_ms * MS)


@pytest.mark.parametrize(
    ("shapes", "is_of_pairs"),
    [
        ("64x1x3, 1x64x3", True),
        ("64x3, 64x3", False),
        ("128+512+10", False),  # a list of tensors
        ("8x3+2, 1x64x3", False),
        ("64x1x3, 1x64x3, 8x3+2", True),
        ("", False),
    ],
)
def test_two_arguments_that_are_each_repeated_for_the_other(shapes, is_of_pairs):
    assert hot_line._is_of_pairs(shapes) == is_of_pairs
