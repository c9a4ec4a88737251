"""Log a result to MLflow.

::

    with mlflow.start_run():
        log_result("stepwhy-runs/20260301-101500-train")

It becomes metrics (`stepwhy/step_time_ms`, `stepwhy/breakdown/<category>_ms`), tags
(`stepwhy/verdict`, `stepwhy/first_finding`, ...) and the artifacts `stepwhy/report.html` and
`stepwhy/result.json`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from stepwhy.base.errors import OutputError
from stepwhy.base.optional import needs_package
from stepwhy.integrations.contents import metrics, report_of, texts

with needs_package("mlflow", "Results in MLflow"):
    import mlflow
    from mlflow.entities import Metric, RunTag

if TYPE_CHECKING:
    import os

    from stepwhy.api.explanation import Explanation
    from stepwhy.integrations.contents import Report, Watched
    from stepwhy.result import Result

_FOLDER = "stepwhy"


def log_result(
    source: Result | Explanation | Watched | str | os.PathLike[str],
    *,
    run_id: str | None = None,
    step: int = 0,
) -> None:
    """Log a result to a run of MLflow, with the tracking server that MLflow is set to.

    Secrets and private facts are redacted, and numbers that were not measured are left out.

    Args:
        source: The path of a run directory or trace; or a result, an explanation, or a watched
            block or callback that has ended.
        run_id: The run; default: the active one.
        step: The step of the metrics.

    Raises:
        InputError: The path cannot be explained, or the block has no result.
        OutputError: No run is active and none is named.
    """
    run = _active_run() if run_id is None else run_id
    write(report_of(source), default_client(), run, step)


def _active_run() -> str:
    active: Any = mlflow.active_run()
    if active is None:
        raise OutputError(
            "No run of MLflow is active",
            "Start one with mlflow.start_run(), or pass 'run_id'",
        )
    return str(active.info.run_id)


def default_client() -> Any:
    """A client of the tracking server that MLflow is set to."""
    return mlflow.MlflowClient()


def write(report: Report, client: Any, run_id: str, step: int) -> None:
    """Log a report with a client.

    Args:
        report: What to log.
        client: An `MlflowClient`.
        run_id: The run.
        step: The step of the metrics.
    """
    now_ms = time.time_ns() // 1_000_000
    client.log_batch(
        run_id,
        metrics=[Metric(k, v, now_ms, step) for k, v in metrics(report.result).items()],
        tags=[RunTag(name, text) for name, text in texts(report.result).items()],
    )
    client.log_text(run_id, report.json, f"{_FOLDER}/result.json")
    client.log_text(run_id, report.page, f"{_FOLDER}/report.html")
