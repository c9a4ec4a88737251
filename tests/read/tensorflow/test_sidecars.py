"""Which device scope decided."""

import pytest

from stepwhy.read.shared.tensorflow.sidecars import Decision, Scope, decide

WORKER, PS = "/job:worker/task:1", "/job:ps/task:0"


@pytest.mark.parametrize(
    ("devices", "outer", "line"),
    [
        ([], "", ""),
        (["/gpu:0"], "", "0"),
        (["/gpu:0", "/cpu:0"], "GPU:0", "1"),
        ([WORKER, "/cpu:0"], "", "1"),
        ([WORKER, "/gpu:0", "/cpu:0"], f"{WORKER} GPU:0", "2"),
        (["/gpu:0", "/cpu:0", WORKER], "GPU:0", "1"),
        ([WORKER, PS, "/cpu:0"], WORKER, "1"),
        (["/gpu:0", "", "/cpu:0"], "", "2"),
        (["/gpu:0", "choose()"], "", "1"),
    ],
)
def test_the_last_contradiction_decides(devices, outer, line):
    scopes = [Scope(device, str(i)) for i, device in enumerate(devices)]
    assert decide(scopes) == Decision(outer, line)


@pytest.mark.parametrize(
    ("devices", "requested", "outer", "line"),
    [
        (["/gpu:0", "choose()"], "/cpu:0", "GPU:0", "1"),
        (["choose()", "/gpu:0"], "/cpu:0", "GPU:0", "0"),
        (["/gpu:0", "choose()"], "/gpu:0", "", "1"),
        (["/gpu:0"], "/cpu:0", "", "0"),  # a colocation, which is no scope
    ],
)
def test_a_function_is_known_by_what_contradicts_the_named_devices(devices, requested, outer, line):
    scopes = [Scope(device, str(i)) for i, device in enumerate(devices)]
    assert decide(scopes, requested) == Decision(outer, line)


def test_what_a_function_chooses_for_others_is_what_an_inner_scope_overrules():
    setter = Scope("setter()", "0")
    scopes = [setter, Scope(PS, "1")]
    assert decide(scopes, PS) == Decision("", "1")
    assert decide(scopes, PS, {setter: WORKER}) == Decision(WORKER, "1")


def test_a_scope_without_a_line_leaves_it_open():
    assert decide([Scope("/gpu:0"), Scope("/cpu:0")]) == Decision("GPU:0", "")
