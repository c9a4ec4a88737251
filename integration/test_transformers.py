"""The callback for the `Trainer` of Hugging Face, and what it reports to."""

import json
from pathlib import Path

import pytest

_HEAD = """
    import json, logging, os, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from stepwhy.integrations.transformers import StepwhyCallback

    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=50, n_positions=8,
                        bos_token_id=1, eos_token_id=1)
    data = [{"input_ids": i, "labels": i} for i in (torch.randint(0, 50, (8,)) for _ in range(120))]

    def train(*callbacks, **more):
        options = {"per_device_train_batch_size": 2, "num_train_epochs": 1, "logging_steps": 10,
                   "report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
        arguments = TrainingArguments(output_dir="out", seed=0, **{**options, **more})
        model = GPT2LMHeadModel(config)
        trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data,
                          callbacks=list(callbacks))
        trainer.train()
        return trainer
"""


@pytest.mark.parametrize(("when", "between"), [("steps", [18, 38]), ("epoch", [28])])
def test_the_losses_are_the_same_and_evaluation_is_in_no_step(
    last, steps_of, pauses, when, between
):
    code = f"""
    callback = StepwhyCallback(quiet=True) if OBSERVED else None
    trainer = train(*filter(None, [callback]), eval_strategy="{when}", eval_steps=20,
                    num_train_epochs={1 if when == "steps" else 2},
                    per_device_train_batch_size={2 if when == "steps" else 4})
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    losses += [row["eval_loss"] for row in trainer.state.log_history if "eval_loss" in row]
    run = callback and str(callback.run_dir)
    print(json.dumps([losses, run]))
    """
    plain, _ = last(_HEAD + code.replace("OBSERVED", "False"))
    losses, run_dir = last(_HEAD + code.replace("OBSERVED", "True"))
    assert losses == plain
    steps = steps_of(Path(run_dir))
    # Of 60 steps the first has no start.
    assert len(steps) == 59
    assert pauses(steps) == between


def test_gradients_that_are_accumulated_are_one_step(last, steps_of):
    code = """
    callback = StepwhyCallback(quiet=True)
    train(callback, gradient_accumulation_steps=2)
    print(json.dumps(str(callback.run_dir)))
    """
    assert len(steps_of(Path(last(_HEAD + code)))) == 29


def test_what_the_trainer_reports_to_has_the_result(last, tmp_path):
    code = """
    import mlflow, wandb
    callback = StepwhyCallback(quiet=True)
    os.environ["TENSORBOARD_LOGGING_DIR"] = "tb"
    train(callback, report_to=["mlflow", "tensorboard", "wandb"])
    (experiment,) = mlflow.search_experiments()
    (run,) = mlflow.MlflowClient().search_runs([experiment.experiment_id])
    summary = dict(wandb.run.summary)
    found = [str(p.parent) for p in __import__("pathlib").Path().rglob("events.out.tfevents.*")]
    print(json.dumps([callback.result.steps.median_ns, run.data.metrics, run.data.tags,
                      summary["stepwhy/step_time_ms"], sorted(set(found))]))
    """
    median_ns, metrics, tags, in_summary, folders = last(_HEAD + code)
    assert metrics["stepwhy/step_time_ms"] == in_summary == pytest.approx(median_ns / 1e6)
    assert "loss" in metrics
    assert tags["stepwhy/verdict"]
    (folder,) = folders
    assert_tensorboard(tmp_path / folder, median_ns / 1e6, step=60)


def assert_tensorboard(folder, step_time_ms, step):
    """TensorBoard itself reads the number and the text, beside the trainer's own."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    (scalar,) = events.Scalars("stepwhy/step_time_ms")
    assert (scalar.step, scalar.value) == (step, pytest.approx(step_time_ms, rel=1e-5))
    assert "train/loss" in events.Tags()["scalars"]
    assert "stepwhy/result/text_summary" in events.Tags()["tensors"]


_FAILING = """
    class Failing(TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            if state.global_step == 30:
                raise LookupError("mine")
"""


def test_after_an_exception_close_explains(last, steps_of):
    code = """
    callback = StepwhyCallback(quiet=True)
    try:
        train(callback, Failing())
    except LookupError:
        callback.close()
    about = json.loads((callback.run_dir / "run.json").read_text())
    print(json.dumps([str(callback.run_dir), about["exit_code"], callback.result is not None]))
    """
    run_dir, exit_code, is_explained = last(_HEAD + _FAILING + code)
    assert (exit_code, is_explained) == (1, True)
    assert len(steps_of(Path(run_dir))) == 29


def test_a_program_that_ends_with_an_exception_is_explained(run, tmp_path):
    ended = run(_HEAD + _FAILING + "    train(StepwhyCallback('out'), Failing())\n")
    assert ended.code == 1
    assert "LookupError: mine" in ended.err
    assert (tmp_path / "out" / "report.html").is_file()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["exit_code"] == 1
