"""Log to the runs of MLflow and Weights & Biases that are active in this process.

Neither is imported here: an active run needs its library, so the training has imported it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepwhy.integrations.harmless import attempt

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepwhy.integrations.contents import Report, Watched


class ActiveRuns:
    """The active runs of one training.

    They are noted when it begins, because other callbacks may close them before it is explained.
    """

    def __init__(self) -> None:
        self._mlflow = ""
        self._wandb: Any = None

    def note(self) -> None:
        """Note the runs that are active now."""
        self._mlflow, self._wandb = _mlflow_run(), _wandb_run()

    def log(
        self, watched: Watched, step: int = 0, *, axis: str = "", without: Collection[str] = ()
    ) -> None:
        """Log the result to the noted runs, or else to those that are active now.

        Args:
            watched: What has a result; without one, nothing is logged.
            step: The number of steps trained.
            axis: The metric of Weights & Biases that holds this number; '' for none.
            without: Ids of runs that have the result already.
        """
        mlflow_run, wandb_run = self._mlflow or _mlflow_run(), self._wandb or _wandb_run()
        self._mlflow, self._wandb = "", None
        if watched.result is None or not (mlflow_run or wandb_run):
            return
        from stepwhy.integrations.contents import report_of  # noqa: PLC0415 - after the training

        report = report_of(watched)
        if mlflow_run and mlflow_run not in without:
            attempt(
                "the result was not logged to MLflow",
                lambda: _to_mlflow(report, mlflow_run, step),
            )
        if wandb_run is not None and wandb_run.id not in without:
            attempt(
                "the result was not logged to Weights & Biases",
                lambda: _to_wandb(report, wandb_run, {axis: step} if axis else {}),
            )


def _mlflow_run() -> str:
    """Id of the active run of MLflow; '' for none."""
    module: Any = sys.modules.get("mlflow")
    find = getattr(module, "active_run", None)
    run = find() if find is not None else None
    return str(run.info.run_id) if run is not None else ""


def _wandb_run() -> Any:
    """The active run of Weights & Biases; None for none."""
    return getattr(sys.modules.get("wandb"), "run", None)


def _to_mlflow(report: Report, run_id: str, step: int) -> None:
    from stepwhy.integrations import mlflow  # noqa: PLC0415 - imports the library

    mlflow.write(report, mlflow.default_client(), run_id, step)


def _to_wandb(report: Report, run: Any, at: dict[str, int]) -> None:
    from stepwhy.integrations import wandb  # noqa: PLC0415 - imports the library

    wandb.write(report, run, at)
