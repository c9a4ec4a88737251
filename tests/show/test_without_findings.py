"""Reports without a finding: good news, or where to look."""

from msgspec import structs

from stepwhy.result import Abstention, EventGroup, Finding, Op, Verdict
from stepwhy.show import words
from stepwhy.show.without_findings import nothing_found

MS = 1_000_000
UNKNOWN = (
    " Which lines of the program cause it is not known: the trace names none; 'stepwhy run' does."
)


def step_of(result, *, ops=(), **categories):
    """The result with a step of 100 ms, spent in some categories, with some operations."""
    empty = dict.fromkeys(result.breakdown.categories, 0)
    breakdown = structs.replace(
        result.breakdown,
        wall_ns=100 * MS,
        categories=empty | {name: ms * MS for name, ms in categories.items()},
        hottest_line="",
    )
    return structs.replace(result, breakdown=breakdown, ops=ops)


def op(name, device, ms):
    return Op(name, device, "unknown", 1.0, ms * MS, ms * MS, None)


def host_bound(result):
    return structs.replace(result, verdict=Verdict("host", 0.9, "The host delays the step."))


def test_step_that_waits_is_not_healthy_without_findings(sample):
    waits = host_bound(step_of(sample("healthy"), dispatch=100))
    breakdown = structs.replace(waits.breakdown, hottest_line="feed.py(8): distance_map")
    waits = structs.replace(waits, breakdown=breakdown)
    assert not words.is_healthy(waits)
    text = nothing_found(waits)
    assert text.startswith("No check found the cause")
    assert text.endswith(f"start at feed.py(8): distance_map.{UNKNOWN}")


def test_start_at_the_function_that_is_compiled_in_every_step(sample):
    compiled = EventGroup(
        "compile", "jit(step)", "train.py(7): main", 40, 9, 40, "x: shape", 38, 1, 40
    )
    rare = EventGroup("compile", "jit(add)", "train.py(2): main", 1, 3, 1, "", 0, 1, 1)
    waits = structs.replace(
        sample("healthy"),
        verdict=Verdict("startup", 0.9, "The step waits for compilation."),
        events=(rare, compiled),
    )
    assert nothing_found(waits).endswith(
        f"start at train.py(7): main, where jit(step) was compiled 40 times (x: shape).{UNKNOWN}"
    )


def test_a_healthy_step_names_what_it_computes(sample):
    ops = (
        op("ampere_bf16_gemm", "GPU:0", 53),
        op("ampere_bf16_gemm", "GPU:1", 50),
        op("attention", "GPU:0", 12),
        op("attention", "GPU:0", 8),
        op("layer_norm", "GPU:0", 1),
        op("aten::mm", "host", 60),
    )
    text = nothing_found(step_of(sample("healthy"), compute=100, ops=ops))
    assert (
        "came back clear. The step computes mostly ampere_bf16_gemm (53 %) and attention (20 %)."
    ) in text
    assert text.endswith("and gradients that nothing uses.")


def test_a_step_that_waits_for_the_host_names_its_operations(sample):
    ops = (op("gemm", "GPU:0", 5), op("aten::nonzero", "host", 70), op("aten::mm", "host", 9))
    waits = host_bound(step_of(sample("healthy"), compute=5, dispatch=95, ops=ops))
    named = "start with aten::nonzero (70 %) and aten::mm (9.0 %)."
    assert nothing_found(waits).endswith(f"{named}{UNKNOWN}")


def test_profiled_operations_are_shares_of_the_step(sample):
    ops = (op("aten::sqrt", "host", 300), op("aten::mul", "host", 100))
    text = nothing_found(step_of(sample("healthy"), compute=100, ops=ops))
    assert "mostly aten::sqrt (75 %) and aten::mul (25 %)." in text


def test_operations_do_not_explain_a_step_that_compiles(sample):
    compiles = step_of(sample("healthy"), compute=10, compile=90, ops=(op("mul", "host", 10),))
    assert nothing_found(host_bound(compiles)).endswith(
        f"start with the largest category above.{UNKNOWN}"
    )


def test_without_operations_the_categories_are_left(sample):
    waits = host_bound(step_of(sample("healthy"), communication=100))
    assert nothing_found(waits).endswith(f"start with the largest category above.{UNKNOWN}")


def test_checks_that_other_programs_prevented_are_named(sample):
    result = sample("healthy")
    unknown = Finding(
        "idle-cores",
        "incomplete",
        "Fewer threads than cores",
        reason="Other programs used the rest.",
        abstention=Abstention("incomplete-record", ("quiet-machine",)),
    )
    result = structs.replace(result, findings=(*result.findings, unknown))
    assert nothing_found(result).endswith(" Not known (idle-cores): Other programs used the rest.")
