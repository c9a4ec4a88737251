"""The callback for `fit`, of Keras 3 on two backends and of legacy Keras."""

import json
from pathlib import Path

import pytest

_HEAD = """
    import json, os, sys, warnings
    warnings.simplefilter("ignore")
    import numpy as np
    import {keras} as keras
    from stepwhy.integrations.{keras} import StepwhyCallback

    keras.utils.set_random_seed(0)
    x, y = np.random.rand(256, 8).astype("float32"), np.random.rand(256, 1).astype("float32")
    model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    model.compile(loss="mse")

    def fit(*callbacks, **more):
        options = {{"batch_size": 8, "verbose": 0, "epochs": 2, **more}}
        return model.fit(x, y, callbacks=list(callbacks), **options).history
"""
_KINDS = {
    "tensorflow": ("keras", {}),
    "torch": ("keras", {"KERAS_BACKEND": "torch"}),
    "legacy": ("tf_keras", {}),
}


@pytest.fixture(params=_KINDS)
def kind(request):
    return _KINDS[request.param]


def head(keras="keras"):
    return _HEAD.format(keras=keras)


def test_each_batch_is_a_step_and_the_losses_are_the_same(kind, last, steps_of, counted, pauses):
    """Validation is in both trainings, and in no step."""
    keras, variables = kind
    code = """
    callback = StepwhyCallback(quiet=True) if sys.argv[1:] else None
    history = fit(*filter(None, [callback]), validation_data=(x, y))
    if callback is None:
        print(json.dumps(history))
        sys.exit()
    shown = callback._repr_html_()
    assert shown.startswith("<iframe"), shown
    print(json.dumps([history, str(callback.run_dir), callback.result.steps.count]))
    """
    plain = last(head(keras) + code, **variables)
    observed = last(head(keras) + code.replace("sys.argv[1:]", "True"), **variables)
    history, run_dir, count = observed
    assert history == plain
    steps = steps_of(Path(run_dir))
    assert (len(steps), count) == (64, counted(steps))
    assert pauses(steps) == [31]


def test_a_fit_that_raises_is_explained_when_it_is_over(kind, last, steps_of):
    keras, variables = kind
    code = """
    class Failing(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 20:
                raise LookupError("mine")

    callback = StepwhyCallback(quiet=True)
    try:
        fit(callback, Failing())
    except LookupError as error:
        pass
    assert "STEPWHY_RUN_DIR" not in os.environ
    about = json.loads((callback.run_dir / "run.json").read_text())
    print(json.dumps([str(callback.run_dir), about["exit_code"], callback.result is not None]))
    """
    run_dir, exit_code, is_explained = last(head(keras) + code, **variables)
    assert (exit_code, is_explained) == (1, True)
    assert len(steps_of(Path(run_dir))) == 20


def test_a_program_that_ends_with_an_exception_is_explained(run, tmp_path):
    code = """
    class Failing(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 20:
                raise KeyboardInterrupt

    fit(StepwhyCallback("out"), Failing())
    """
    ended = run(head() + code)
    assert "KeyboardInterrupt" in ended.err
    assert "Where the step goes" in ended.err or "Steps" in ended.err
    assert (tmp_path / "out" / "report.html").is_file()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["exit_code"] == 130


def test_each_fit_writes_its_own_directory(last, steps_of):
    code = """
    callback = StepwhyCallback(quiet=True)
    found = []
    for epochs in (1, 2):
        fit(callback, epochs=epochs)
        found.append(str(callback.run_dir))
    print(json.dumps(found))
    """
    found = last(head() + code)
    assert [len(steps_of(Path(run_dir))) for run_dir in found] == [32, 64]


def test_an_active_run_of_mlflow_and_wandb_has_the_result(last):
    code = """
    import mlflow, wandb
    callback = StepwhyCallback(quiet=True)
    with mlflow.start_run() as run, wandb.init(project="p") as other:
        fit(callback)
        logged = dict(other.summary)
    found = mlflow.MlflowClient().get_run(run.info.run_id).data
    print(json.dumps([found.metrics, found.tags, sorted(logged)]))
    """
    metrics, tags, logged = last(head() + code)
    assert metrics["stepwhy/step_time_ms"] > 0
    assert tags["stepwhy/verdict"]
    assert "stepwhy/step_time_ms" in logged


@pytest.mark.parametrize("out", ["", '"out"'])
def test_under_stepwhy_run_the_callback_has_no_effect(run, tmp_path, out):
    code = f"""
    callback = StepwhyCallback({out})
    fit(callback)
    print(callback.run_dir, callback.result)
    """
    ended = run(head() + code, "-m", "stepwhy", "run", "--out", "outer")
    assert ended.out == "None None\n"
    assert ended.err.count("stepwhy: the callback has no effect") == 1
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "stepwhy-runs").exists()


def test_another_rank_is_not_observed(run, tmp_path):
    ended = run(head() + "    fit(StepwhyCallback())\n", RANK="1")
    assert (ended.code, "stepwhy" in ended.err) == (0, False)
    assert not (tmp_path / "stepwhy-runs").exists()
