"""The callback for the `Trainer` of Lightning, with its loggers."""

import csv
import json
from pathlib import Path

import pytest

_HEAD = """
    import json, logging, os, sys, warnings
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    import torch
    import lightning
    from torch.utils.data import DataLoader, TensorDataset
    from stepwhy.integrations.lightning import StepwhyCallback

    lightning.seed_everything(0, verbose=False)
    torch.set_num_threads(1)

    class Model(lightning.LightningModule):
        def __init__(self, last=10**9):
            super().__init__()
            self.layer, self.losses, self.last = torch.nn.Linear(8, 1), [], last

        def training_step(self, batch, number):
            if len(self.losses) == self.last:
                raise LookupError("mine")
            loss = self.layer(batch[0]).square().mean()
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, number):
            import time
            time.sleep(0.02)
            self.log("val", self.layer(batch[0]).square().mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.01)

    def loader(workers=0):
        data = TensorDataset(torch.randn(128, 8))
        return DataLoader(data, batch_size=4, num_workers=workers)

    def fit(model, *callbacks, validation=True, workers=0, **more):
        options = {"max_epochs": 2, "accelerator": "cpu", "enable_checkpointing": False,
                   "enable_model_summary": False, "enable_progress_bar": False, "logger": False}
        trainer = lightning.Trainer(callbacks=list(callbacks), **{**options, **more})
        trainer.fit(model, loader(workers), loader() if validation else None)
        return model.losses
"""


def test_the_losses_are_the_same_and_validation_is_in_no_step(last, steps_of, counted, pauses):
    code = """
    callback = StepwhyCallback(quiet=True) if OBSERVED else None
    losses = fit(Model(), *filter(None, [callback]), val_check_interval=10)
    shown = callback and callback._repr_html_()[:7]
    run = callback and [str(callback.run_dir), callback.result.steps.count, shown]
    print(json.dumps([losses, run]))
    """
    plain, _ = last(_HEAD + code.replace("OBSERVED", "False"))
    losses, (run_dir, count, shown) = last(_HEAD + code.replace("OBSERVED", "True"))
    assert (losses, shown) == (plain, "<iframe")
    steps = steps_of(Path(run_dir))
    # Of 64 steps the first has no start. Each epoch of 32 has three validations.
    assert (len(steps), count) == (63, counted(steps))
    # A validation takes 32 batches of 20 ms.
    assert pauses(steps, 500_000_000) == [8, 18, 28, 40, 50, 60]
    assert max(step["end_ns"] - step["start_ns"] for step in steps) < 0.5e9


def test_the_loader_of_the_first_epoch_is_observed(last):
    code = """
    callback = StepwhyCallback(quiet=True)
    fit(Model(), callback, validation=False, workers=1)
    (log,) = callback.run_dir.glob("process-*/loaders.jsonl")
    print(json.dumps([json.loads(line) for line in log.read_text().splitlines()]))
    """
    loaders = last(_HEAD + code)
    assert [one["workers"] for one in loaders][:1] == [1]


def test_all_loggers_have_the_result(last, tmp_path):
    code = """
    from lightning.pytorch import loggers
    chosen = [
        loggers.CSVLogger("csv"), loggers.TensorBoardLogger("tb"),
        loggers.MLFlowLogger(tracking_uri=os.environ["MLFLOW_TRACKING_URI"]),
        loggers.WandbLogger(project="p", save_dir=".", offline=True),
    ]
    callback = StepwhyCallback(quiet=True)
    fit(Model(), callback, logger=chosen)
    client, run_id = chosen[2].experiment, chosen[2].run_id
    found = client.get_run(run_id).data
    files = [item.path for item in client.list_artifacts(run_id, "stepwhy")]
    print(json.dumps([
        callback.result.steps.median_ns, chosen[0].log_dir, chosen[1].log_dir, found.metrics,
        found.tags, files, dict(chosen[3].experiment.summary)["stepwhy/verdict"],
    ]))
    """
    median_ns, table, events, metrics, tags, files, verdict = last(_HEAD + code)
    expected = pytest.approx(median_ns / 1e6)
    assert metrics["stepwhy/step_time_ms"] == expected
    assert sorted(files) == ["stepwhy/report.html", "stepwhy/result.json"]
    assert tags["stepwhy/verdict"] == verdict
    with (tmp_path / table / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["stepwhy/step_time_ms"]]
    assert [float(row["stepwhy/step_time_ms"]) for row in rows] == [expected]
    assert_tensorboard(tmp_path / events, median_ns / 1e6, step=64)


def assert_tensorboard(folder, step_time_ms, step):
    """TensorBoard itself reads the number and the text."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    (scalar,) = events.Scalars("stepwhy/step_time_ms")
    assert (scalar.step, scalar.value) == (step, pytest.approx(step_time_ms, rel=1e-5))
    (text,) = events.Tensors("stepwhy/result/text_summary")
    assert b"Steps:" in text.tensor_proto.string_val[0]


def test_an_exception_passes_and_the_steps_before_it_are_explained(last, steps_of):
    code = """
    callback = StepwhyCallback(quiet=True)
    try:
        fit(Model(last=40), callback, validation=False)
    except LookupError as error:
        raised = str(error)
    about = json.loads((callback.run_dir / "run.json").read_text())
    found = [raised, about["exit_code"], str(callback.run_dir), callback.result is not None]
    print(json.dumps(found))
    """
    raised, exit_code, run_dir, is_explained = last(_HEAD + code)
    assert (raised, exit_code, is_explained) == ("mine", 1, True)
    assert len(steps_of(Path(run_dir))) == 39


def test_inside_a_watched_block_the_callback_has_no_effect(run, steps_of):
    code = """
    import stepwhy
    callback = StepwhyCallback()
    with stepwhy.watch(quiet=True) as block:
        fit(Model(), callback, validation=False)
    print(json.dumps([callback.run_dir, callback.result, str(block.run_dir)]))
    """
    ended = run(_HEAD + code)
    *nothing, run_dir = json.loads(ended.out.splitlines()[-1])
    assert nothing == [None, None]
    assert len(steps_of(Path(run_dir))) == 63
    assert ended.err.count("stepwhy: the callback has no effect") == 1


def test_a_fit_without_batches_is_over(last):
    code = """
    callback = StepwhyCallback(quiet=True)
    fit(Model(), callback, limit_train_batches=0)
    print(json.dumps(["STEPWHY_RUN_DIR" in os.environ, callback.result]))
    """
    assert last(_HEAD + code) == [False, None]
