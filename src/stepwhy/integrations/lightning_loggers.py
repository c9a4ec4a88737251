"""Log a result to the loggers of a Lightning `Trainer`, through their own public methods.

Every logger receives the numbers, and those that can hold more receive the report, too. They are
recognised by the names of their classes, so that none of their libraries is imported here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from stepwhy.integrations.contents import metrics, report_of
from stepwhy.integrations.harmless import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepwhy.integrations.contents import Report, Watched

    Writer = Callable[[Report, Any, int], str]

AXIS = "trainer/global_step"
"""The metric that `WandbLogger` logs beside every other one, as their axis."""


def log(watched: Watched, loggers: Iterable[Any], step: int) -> list[str]:
    """Log the result to each logger; a failure is one line of output.

    Args:
        watched: What has a result; without one, nothing is logged.
        loggers: The loggers of the trainer.
        step: The global step.

    Returns:
        Ids of the runs of MLflow and Weights & Biases that now have it.
    """
    loggers = list(loggers)
    if watched.result is None or not loggers:
        return []
    report = report_of(watched)
    return list(filter(None, (_log(report, logger, step) for logger in loggers)))


def _log(report: Report, logger: Any, step: int) -> str | None:
    """Log to one logger; the id of its run, if it has one."""
    names = [kind.__name__ for kind in type(logger).__mro__]
    known = next((name for name in names if name in _WRITERS), None)
    write = _WRITERS[known] if known is not None else _to_any
    problem = f"the result was not logged to {known or names[0]}"
    return attempt(problem, functools.partial(write, report, logger, step))


def _to_any(report: Report, logger: Any, step: int) -> str:
    logger.log_metrics(metrics(report.result), step)
    logger.save()
    return ""


def _to_tensorboard(report: Report, logger: Any, step: int) -> str:
    from stepwhy.integrations import summary_writers  # noqa: PLC0415 - each when it is used

    summary_writers.write(report, logger.experiment, step)
    return ""


def _to_mlflow(report: Report, logger: Any, step: int) -> str:
    from stepwhy.integrations import mlflow  # noqa: PLC0415 - as above

    mlflow.write(report, logger.experiment, logger.run_id, step)
    return str(logger.run_id)


def _to_wandb(report: Report, logger: Any, step: int) -> str:
    from stepwhy.integrations import wandb  # noqa: PLC0415 - as above

    wandb.write(report, logger.experiment, {AXIS: step})
    return str(logger.experiment.id)


_WRITERS: dict[str, Writer] = {
    "TensorBoardLogger": _to_tensorboard,
    "MLFlowLogger": _to_mlflow,
    "WandbLogger": _to_wandb,
}
