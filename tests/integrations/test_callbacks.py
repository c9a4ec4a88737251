"""The callbacks, with stand-ins for their frameworks; `integration/` has the real ones."""

import gc
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stepwhy.base.errors import MissingPackageError
from stepwhy.integrations.ranks import is_first_rank


class Base:
    """Stands for a framework's class of callbacks."""


class CallbackList:
    """Stands for the list of callbacks of one `fit`."""

    def __init__(self, callback):
        self.callback = callback

    def begin(self):
        self.callback.on_train_begin()


@pytest.fixture
def keras(load, watches):  # noqa: ARG001 - before the module
    return load("keras", keras={}, keras__callbacks={"Callback": Base})


@pytest.fixture
def lightning(load, watches):  # noqa: ARG001 - before the module
    return load("lightning", lightning={}, lightning__pytorch={"Callback": Base})


@pytest.fixture
def transformers(load, watches):  # noqa: ARG001 - before the module
    return load("transformers", transformers={"TrainerCallback": Base})


STATE = SimpleNamespace(is_world_process_zero=True, global_step=7)


def test_importing_the_package_imports_no_framework():
    code = "import sys, stepwhy.integrations; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    others = {"keras", "tf_keras", "lightning", "transformers", "mlflow", "wandb", "torch", "numpy"}
    assert roots & others == set()


@pytest.mark.parametrize(
    ("name", "missing", "package"),
    [
        ("keras", ("keras", "keras__callbacks"), "keras"),
        ("tf_keras", ("tf_keras", "tf_keras__callbacks"), "tf_keras"),
        ("lightning", ("lightning", "lightning__pytorch", "pytorch_lightning"), "lightning"),
        ("transformers", ("transformers",), "transformers"),
        ("mlflow", ("mlflow",), "mlflow"),
        ("wandb", ("wandb",), "wandb"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(load, name, missing, package):
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        load(name, **dict.fromkeys(missing))


def test_the_older_name_of_lightning_works_too(load):
    missing = {"lightning": None, "lightning__pytorch": None}
    module = load("lightning", **missing, pytorch_lightning={"Callback": Base})
    assert issubclass(module.StepwhyCallback, Base)


# --- Keras ---


def test_each_fit_is_a_block(keras, watches):
    callback = keras.StepwhyCallback("out", quiet=True)
    assert (callback.result, callback.run_dir, callback.messages) == (None, None, ())
    assert "no training is explained yet" in callback._repr_html_()
    for _ in range(2):
        callbacks = CallbackList(callback)
        callbacks.begin()
        callback.on_train_end()
    assert [(one.out, one.quiet, one.ended) for one in watches] == [("out", True, [None])] * 2
    assert callback._repr_html_() == "<iframe>"


def test_a_fit_that_raises_ends_with_its_list_of_callbacks(keras, watches):
    callback = keras.StepwhyCallback()
    CallbackList(callback).begin()
    gc.collect()
    (watch,) = watches
    assert [type(error).__name__ for error in watch.ended] == ["UnfinishedError"]


def test_the_list_of_an_earlier_fit_ends_no_later_one(keras, watches):
    callback = keras.StepwhyCallback()
    first, second = CallbackList(callback), CallbackList(callback)
    first.begin()
    callback.on_train_end()
    second.begin()
    del first
    gc.collect()
    assert [one.ended for one in watches] == [[None], []]
    callback.on_train_end()


def test_a_training_that_did_not_end_is_ended_by_the_next(keras, watches):
    callback = keras.StepwhyCallback()
    callback.on_train_begin()
    callback.on_train_begin()
    callback.close()
    callback.close()
    assert [len(one.ended) for one in watches] == [1, 1]


@pytest.mark.usefixtures("idle")
def test_in_an_observed_program_it_has_no_effect(keras, watches, capsys):
    callback = keras.StepwhyCallback()
    callback.on_train_begin()
    callback.on_train_end()
    assert capsys.readouterr().err.startswith("stepwhy: the callback has no effect: 'stepwhy run'")
    assert watches[0].ended == []


def test_a_failure_is_one_line(keras, watches, monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("no\nway")

    callback = keras.StepwhyCallback()
    monkeypatch.setattr(callback._observation, "begin", fail)
    callback.on_train_begin()
    assert capsys.readouterr().err == "stepwhy: the callback failed: RuntimeError: no\\nway\n"
    assert watches == []


def test_other_ranks_are_not_observed(keras, watches, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    keras.StepwhyCallback().on_train_begin()
    assert watches == []


def cluster(kind, index, *kinds):
    return json.dumps(
        {"cluster": {name: [] for name in kinds}, "task": {"type": kind, "index": index}}
    )


@pytest.mark.parametrize(
    ("variable", "value", "is_first"),
    [
        ("RANK", "0", True),
        ("RANK", "12", False),
        ("OMPI_COMM_WORLD_RANK", "1", False),
        ("TF_CONFIG", cluster("worker", 0, "worker"), True),
        ("TF_CONFIG", cluster("worker", 1, "worker"), False),
        ("TF_CONFIG", cluster("worker", 0, "chief", "worker"), False),
        ("TF_CONFIG", cluster("chief", 0, "chief", "worker"), True),
        ("TF_CONFIG", "{", True),
        ("TF_CONFIG", "[]", True),
        ("RANK", "first", True),
    ],
)
def test_the_first_rank(monkeypatch, variable, value, is_first):
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert is_first_rank() is is_first


# --- Lightning ---


def test_a_fit_of_lightning(lightning, watches, pauses, trainer):
    callback = lightning.StepwhyCallback()
    callback.on_fit_start(trainer, None)
    callback.on_validation_start(trainer, None)
    callback.on_validation_end(trainer, None)
    callback.on_train_end(trainer, None)
    callback.teardown(trainer, None, "fit")
    callback.on_validation_start(trainer, None)  # of `trainer.validate`
    assert (watches[0].ended, pauses) == ([None], ["pause", "resume"])


def test_an_exception_in_lightning(lightning, watches, trainer):
    callback, error = lightning.StepwhyCallback(), KeyboardInterrupt()
    callback.on_fit_start(trainer, None)
    callback.on_exception(trainer, None, error)
    assert watches[0].ended == [error]


def test_a_fit_of_lightning_without_steps_is_over(lightning, watches, trainer):
    callback = lightning.StepwhyCallback()
    callback.on_fit_start(trainer, None)
    callback.teardown(trainer, None, "fit")
    assert watches[0].ended == [None]


def test_other_ranks_of_lightning(lightning, watches, trainer):
    trainer.is_global_zero = False
    callback = lightning.StepwhyCallback()
    callback.on_fit_start(trainer, None)
    callback.on_train_end(trainer, None)
    assert watches == []


# --- transformers ---


def control(should_evaluate):
    return SimpleNamespace(should_evaluate=should_evaluate)


def test_a_training_of_transformers(transformers, watches, pauses):
    callback = transformers.StepwhyCallback()
    callback.on_train_begin(None, STATE, None, model=None)
    callback.on_step_begin(None, STATE, None)
    callback.on_step_end(None, STATE, control(should_evaluate=False))
    assert pauses == []
    callback.on_step_end(None, STATE, control(should_evaluate=True))
    callback.on_epoch_end(None, STATE, control(should_evaluate=True))
    callback.on_evaluate(None, STATE, None, metrics={})
    callback.on_train_end(None, STATE, None)
    callback.on_evaluate(None, STATE, None)  # of `trainer.evaluate`
    assert (watches[0].ended, pauses) == ([None], ["pause", "resume"])


def test_an_evaluation_that_does_not_happen_pauses_one_step(transformers, pauses):
    callback = transformers.StepwhyCallback()
    callback.on_train_begin(None, STATE, None)
    callback.on_step_end(None, STATE, control(should_evaluate=True))
    callback.on_step_begin(None, STATE, None)
    callback.on_step_begin(None, STATE, None)
    callback.close()
    assert pauses == ["pause", "resume"]


def test_other_ranks_of_transformers(transformers, watches):
    state = SimpleNamespace(is_world_process_zero=False)
    transformers.StepwhyCallback().on_train_begin(None, state, None)
    assert watches == []


def test_the_writer_of_the_trainer_is_found(transformers):
    class Writer:
        log_dir = "runs/1"

    handler = SimpleNamespace(callbacks=[object(), SimpleNamespace(tb_writer=Writer())])
    assert transformers._tensorboard_of(handler) == (Writer, "runs/1")
    assert transformers._tensorboard_of(None) is None
