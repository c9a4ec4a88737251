"""Code of fixes shows the calls of the program, with only the changed arguments new."""

from types import SimpleNamespace

import pytest

from stepwhy.diagnose.shared.user_calls import in_users_words
from stepwhy.result import Finding, Fix
from stepwhy.trace.notation import parse

CODE = "loader = DataLoader(..., num_workers=2, persistent_workers=True)"


def code_of(*calls, code=CODE, levels=""):
    rows = "".join(f"made | 0 ms | 0 ms | {name} | {call} | {line}\n" for name, call, line in calls)
    events = f"events: kind | start_ns | dur_ns | name | reason | source\n{rows}" if rows else ""
    trace = parse(f"unit: 1 ms\nmain step |[--]|\n\n{events}\n{levels}")
    finding = Finding("x", "found", "X", 1, None, (), Fix("Do it.", code, "none"))
    found = in_users_words(finding, SimpleNamespace(trace=trace))
    return found.fix.code


def test_the_users_arguments_stay_and_changed_ones_are_new():
    call = "torch.utils.data.DataLoader(train, args.batch, num_workers=0, shuffle=True)"
    assert code_of(("Images", call, "train.py(57): main")) == (
        "# train.py(57)\n"
        "loader = torch.utils.data.DataLoader(\n"
        "    train,\n"
        "    args.batch,\n"
        "    shuffle=True,\n"
        "    num_workers=2,\n"
        "    persistent_workers=True,\n"
        ")"
    )


def test_an_argument_by_position_is_replaced_in_its_place():
    call = "DataLoader(train, 8, True, None, None, 0)"
    code = code_of(("Images", call, ""), code="loader = DataLoader(..., num_workers=4)")
    assert code == "loader = DataLoader(train, 8, True, None, None, 4)"


def test_an_indented_call_stays_indented():
    call = ("Images", "DataLoader(train)", "train.py(5): main")
    code = code_of(call, code="if ready:\n    loader = DataLoader(..., batch_size=4)\n    go()")
    assert code == (
        "if ready:\n    # train.py(5)\n    loader = DataLoader(train, batch_size=4)\n    go()"
    )


def test_calls_of_keras_and_of_sessions_are_filled_in_too():
    fit = ("fit", "net.fit(images, labels, 8, epochs=3)", "train.py(9): main")
    assert code_of(fit, code="model.fit(..., batch_size=64)") == (
        "# train.py(9)\nnet.fit(images, labels, 64, epochs=3)"
    )
    session = ("session", "tf.Session('', graph)", "train.py(4): main")
    code = "config = tf.ConfigProto()\nsession = tf.Session(..., config=config)"
    assert code_of(session, code=code) == (
        "config = tf.ConfigProto()\n# train.py(4)\nsession = tf.Session('', graph, config=config)"
    )


@pytest.mark.parametrize(
    "call", ["DataLoader(train, **options)", "DataLoader(*arguments)", "DataLoader(", "Loader(x)"]
)
def test_only_the_change_is_shown_where_the_arguments_are_not_known(call):
    assert code_of(("Images", call, "")) == CODE
    assert code_of() == CODE


def test_of_several_loaders_the_one_that_was_sampled_most_is_meant():
    calls = [("Valid", "DataLoader(valid)", ""), ("Train", "DataLoader(train)", "")]
    levels = "levels: queue | kind | time_ns | value | capacity | reserve\n"
    levels += "Train | dataloader | 1 ms | 1 | 2 | 0\n"
    code = "loader = DataLoader(..., num_workers=2)"
    assert code_of(*calls, code=code) == "loader = DataLoader(valid, num_workers=2)"
    assert code_of(*calls, code=code, levels=levels) == "loader = DataLoader(train, num_workers=2)"


def test_an_optimizer_keeps_its_arguments():
    call = ("AdamW", "torch.optim.AdamW(groups, lr=rate)", "train.py(9): main")
    code = code_of(call, code="optimizer = torch.optim.AdamW(..., fused=True)")
    assert code == ("# train.py(9)\noptimizer = torch.optim.AdamW(groups, lr=rate, fused=True)")
