"""`log_result` of a run directory, with MLflow and Weights & Biases."""

import json

import pytest

_RUN = """
    import json, os
    import numpy as np
    import stepwhy

    with stepwhy.watch("run", quiet=True):
        for _ in range(30):
            with stepwhy.step():
                np.ones((64, 64)).dot(np.ones((64, 64)))
"""


def test_mlflow(last):
    code = """
    import mlflow
    from stepwhy.integrations.mlflow import log_result
    with mlflow.start_run() as active:
        log_result("run", step=7)
    other = mlflow.MlflowClient().create_run("0").info.run_id
    log_result(stepwhy.explain("run"), run_id=other)
    client = mlflow.MlflowClient()
    found = [client.get_run(one).data for one in (active.info.run_id, other)]
    texts = [mlflow.artifacts.load_text(f"runs:/{active.info.run_id}/stepwhy/{name}")
             for name in ("result.json", "report.html")]
    steps = [m.step for m in client.get_metric_history(other, "stepwhy/step_time_ms")]
    steps += [m.step for m in client.get_metric_history(active.info.run_id, "stepwhy/step_time_ms")]
    print(json.dumps([[one.metrics for one in found], found[0].tags, texts, steps]))
    """
    (metrics, again), tags, (result, page), steps = last(_RUN + code)
    explained = json.loads(result)
    assert metrics == again
    assert metrics["stepwhy/step_time_ms"] == pytest.approx(explained["steps"]["median_ns"] / 1e6)
    # Nothing was traced: what is unknown is left out.
    assert "stepwhy/breakdown/compute_ms" not in metrics
    assert tags["stepwhy/bound_by"] == explained["verdict"]["bound_by"]
    assert page.startswith("<!doctype html>")
    assert steps == [0, 7]


def test_wandb(last):
    code = """
    import wandb
    from pathlib import Path
    from stepwhy.integrations.wandb import log_result
    with wandb.init(project="p") as active:
        log_result("run")
        summary = dict(active.summary)
    pages = list(Path("wandb").rglob("media/html/**/*.html"))
    print(json.dumps([summary["stepwhy/step_time_ms"], summary["stepwhy/verdict"],
                      [page.read_text()[:15] for page in pages]]))
    """
    step_time_ms, verdict, pages = last(_RUN + code)
    assert step_time_ms > 0
    assert verdict
    assert pages == ["<!doctype html>"]


@pytest.mark.parametrize("library", ["mlflow", "wandb"])
def test_without_an_active_run_an_error_says_what_to_do(run, library):
    code = f"""
    from stepwhy.integrations.{library} import log_result
    log_result("run")
    """
    ended = run(_RUN + code)
    assert ended.code == 1
    assert "OutputError: No run of " in ended.err
