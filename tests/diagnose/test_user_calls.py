"""Code of fixes shows the calls of the program, with only the changed arguments new."""

from types import SimpleNamespace

import pytest

from stepwhy.diagnose.shared.pipeline_calls import with_pipeline
from stepwhy.diagnose.shared.user_calls import in_users_words
from stepwhy.result import Evidence, Finding, Fix
from stepwhy.trace.notation import parse

CODE = "loader = DataLoader(..., num_workers=2, persistent_workers=True)"


def code_of(*calls, code=CODE, levels="", lines=()):
    rows = "".join(f"made | 0 ms | 0 ms | {name} | {call} | {line}\n" for name, call, line in calls)
    events = f"events: kind | start_ns | dur_ns | name | reason | source\n{rows}" if rows else ""
    trace = parse(f"unit: 1 ms\nmain step |[--]|\n\n{events}\n{levels}")
    evidence = tuple(Evidence("time at the line", 1, "ns", line) for line in lines)
    finding = Finding("x", "found", "X", 1, None, evidence, Fix("Do it.", code, "none"))
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


def test_a_hook_that_saves_gets_its_interval_in_its_place():
    hook = ("CheckpointSaverHook", "CheckpointSaverHook(folder, None, 1)", "train.py(4): main")
    code = "tf.train.CheckpointSaverHook(\n    ..., save_secs=600, save_steps=None)"
    assert code_of(hook, code=code) == "# train.py(4)\nCheckpointSaverHook(folder, 600, None)"


@pytest.mark.parametrize(
    "call", ["DataLoader(train, **options)", "DataLoader(*arguments)", "DataLoader(", "Loader(x)"]
)
def test_only_the_change_is_shown_where_the_arguments_are_not_known(call):
    assert code_of(("Images", call, "")) == CODE
    assert code_of() == CODE


def test_of_several_calls_the_one_that_the_evidence_names_first_is_meant():
    calls = [("A", "Embedding(a)", "n.py(1): f"), ("B", "Embedding(b)", "n.py(2): f")]
    lines, code = ["n.py(9): g", "n.py(2): f", "n.py(1): f"], "table = Embedding(..., sparse=True)"
    filled = code_of(*calls, code=code, lines=lines)
    assert filled == "# n.py(2)\ntable = Embedding(b, sparse=True)"


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


SERIAL = """\
dataset = dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.prefetch(tf.data.AUTOTUNE)"""
SOURCE = "tf.data.Dataset.from_tensor_slices(paths)"


def pipeline(code, made, *stages):
    """Code of a fix for a pipeline: of each stage name, line, work and whether it is random."""
    calls = "".join(f"made | 0 ms | 0 ms | tf.data[{n}] | {text} | {at}\n" for n, text, at in made)
    names = [stage[0] for stage in stages]
    rows = "".join(
        f"{name} | tf.data | {consumer} | {'Prefetch' in name:d} | -1 | 0 | 8 | {work} | {line} | "
        f"{random}\n"
        for (name, line, work, random), consumer in zip(stages, ["-", *names], strict=False)
    )
    columns = "name | kind | consumer | buffered | parallelism | tuned | elements | processing_ns"
    trace = parse(
        "unit: 1 ms\nmain step |[--]|\n\n"
        "events: kind | start_ns | dur_ns | name | reason | source\n"
        f"{calls}\nstages: {columns} | source | random\n{rows}"
    )
    finding = Finding("x", "found", "X", 1, None, (), Fix("Do it.", code, "none"))
    facts = SimpleNamespace(trace=trace)
    return with_pipeline(in_users_words(finding, facts), facts).fix.code


def test_a_chain_over_several_lines_has_its_changes_in_their_places():
    text = f"images = {SOURCE}.map(load).shuffle(1000, seed=args.seed).batch(32)"
    made = [(0, text, "a.py(3): f"), (1, text, "a.py(4): f"), (3, text, "a.py(6): f")]
    stages = [
        ("Batch[1]", "a.py(6): f", 5, -1),
        ("Shuffle[2]", "a.py(5): f", 5, -1),
        ("Map[3]", "a.py(4): f", 900, 0),
        ("TensorSlice[4]", "a.py(3): f", 5, -1),
    ]
    assert pipeline(SERIAL, made, *stages) == (
        "# a.py(4)\n"
        "images = (\n"
        "    tf.data.Dataset.from_tensor_slices(paths)\n"
        "    .map(load, num_parallel_calls=tf.data.AUTOTUNE)\n"
        "    .shuffle(1000, seed=args.seed)\n"
        "    .batch(32)\n"
        "    .prefetch(tf.data.AUTOTUNE)\n"
        ")"
    )
    assert pipeline("dataset = dataset.cache()   # or in a file", made, *stages) == (
        "# a.py(4)\n"
        "images = (\n"
        "    tf.data.Dataset.from_tensor_slices(paths)\n"
        "    .map(load)\n"
        "    .cache()\n"
        "    .shuffle(1000, seed=args.seed)\n"
        "    .batch(32)\n"
        ")"
    )


def test_statements_of_a_function_come_in_the_order_of_the_pipeline():
    made = [
        (0, "rows = rows.interleave(parts, 4)", "a.py(2): rows_of"),
        (0, "rows = rows.map(parse, 1)", "a.py(3): rows_of"),
        (0, "return rows.padded_batch(args.size)", "a.py(4): rows_of"),
    ]
    stages = [
        ("PaddedBatchV2[1]", "a.py(4): rows_of", 5, -1),
        ("Map[2]", "a.py(3): rows_of", 700, 0),
        ("InterleaveV2[3]", "a.py(2): rows_of", 100, -1),
    ]
    assert pipeline(SERIAL, made, *stages) == (
        "# a.py(3)\nrows = rows.map(parse, tf.data.AUTOTUNE)\n"
        "# a.py(4)\nreturn rows.padded_batch(args.size).prefetch(tf.data.AUTOTUNE)"
    )
    larger = pipeline("dataset = dataset.batch(64)   # or feed 64\ngo()", made, *stages)
    assert larger == "# a.py(4)\nreturn rows.padded_batch(64)\ngo()"


def test_of_two_functions_in_a_line_the_slow_one_is_not_known():
    text = "rows = rows.map(read).map(parse)"
    made = [(0, text, "a.py(2): f"), (1, text, "a.py(2): f")]
    stages = [("Map[1]", "a.py(2): f", 900, 0), ("Map[2]", "a.py(2): f", 90, 0)]
    assert pipeline(SERIAL, made, *stages) == SERIAL


def test_batches_that_are_prefetched_are_not_prefetched_again():
    text = "rows = rows.map(parse).prefetch(1)"
    made = [(0, text, "a.py(2): f"), (1, text, "a.py(2): f")]
    stages = [("Prefetch[1]", "a.py(2): f", 9, -1), ("Map[2]", "a.py(2): f", 90, 0)]
    assert pipeline(SERIAL, made, *stages) == (
        "# a.py(2)\nrows = rows.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)"
    )


def test_a_call_that_has_to_come_earlier_is_moved():
    text = f"images = {SOURCE}.map(name).map(decode).cache().take(n).batch(32).prefetch(2)"
    made = [(n, text, "a.py(3): f") for n in range(7)]
    stages = [
        ("Prefetch[1]", "a.py(3): f", 5, -1),
        ("Batch[2]", "a.py(3): f", 5, -1),
        ("Take[3]", "a.py(3): f", 5, -1),
        ("MemoryCache[4]", "a.py(3): f", 5, -1),
    ]
    code = "dataset = dataset.take(...).cache()   # not after it"
    assert pipeline(code, made, *stages) == (
        "# a.py(3)\n"
        "images = (\n"
        "    tf.data.Dataset.from_tensor_slices(paths)\n"
        "    .map(name)\n"
        "    .map(decode)\n"
        "    .take(n)\n"
        "    .cache()\n"
        "    .batch(32)\n"
        "    .prefetch(2)\n"
        ")"
    )
    assert pipeline(code, made, *stages[:2]) == code


def test_batches_come_before_the_function_that_takes_longest():
    made = [
        (0, "rows = rows.map(read)", "a.py(2): f"),
        (0, "rows = rows.map(parse).batch(32)", "a.py(3): f"),
        (1, "rows = rows.map(parse).batch(32)", "a.py(3): f"),
    ]
    stages = [
        ("BatchV2[1]", "a.py(3): f", 5, -1),
        ("Map[2]", "a.py(3): f", 70, -1),
        ("Map[3]", "a.py(2): f", 60, -1),
    ]
    code = "dataset = dataset.batch(...).map(...)   # the function then gets a batch"
    assert pipeline(code, made, *stages) == "# a.py(3)\nrows = rows.batch(32).map(parse)"
    # In a statement of its own, the function cannot simply change places with the batches.
    stages[1], stages[2] = ("Map[2]", "a.py(3): f", 50, -1), ("Map[3]", "a.py(2): f", 99, -1)
    assert pipeline(code, made, *stages) == code


@pytest.mark.parametrize(
    "call", ["rows.map(parse, **options)", "rows.map(*arguments)", "rows.map(", "map(parse)"]
)
def test_a_pipeline_whose_arguments_are_not_known_is_not_shown(call):
    stages = [("Map[1]", "a.py(2): f", 90, 0)]
    assert pipeline(SERIAL, [(0, call, "a.py(2): f")], *stages) == SERIAL
    assert pipeline(SERIAL, [], *stages) == SERIAL


def test_nothing_is_cached_that_may_be_new_in_each_epoch():
    made = [(0, "rows = rows.map(augment)", "a.py(2): f")]
    code = "dataset = dataset.cache()"
    for random in (1, -1):
        assert pipeline(code, made, ("Map[1]", "a.py(2): f", 90, random)) == code
