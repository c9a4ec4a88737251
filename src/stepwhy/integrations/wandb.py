"""Log a result to Weights & Biases.

::

    with wandb.init(project="training"):
        log_result("stepwhy-runs/20260301-101500-train")

It becomes metrics (`stepwhy/step_time_ms`, `stepwhy/breakdown/<category>_ms`), the page as the
panel `stepwhy/report`, texts in the summary (`stepwhy/verdict`, `stepwhy/first_finding`, ...), and
an artifact with `result.json`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from stepwhy.base.errors import OutputError
from stepwhy.base.optional import needs_package
from stepwhy.integrations.contents import metrics, report_of, texts

with needs_package("wandb", "Results in Weights & Biases"):
    import wandb

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from stepwhy.api.explanation import Explanation
    from stepwhy.integrations.contents import Report, Watched
    from stepwhy.result import Result

_TYPE = "stepwhy-result"


def log_result(
    source: Result | Explanation | Watched | str | os.PathLike[str], *, run: Any = None
) -> None:
    """Log a result to a run of Weights & Biases.

    Secrets and private facts are redacted, and numbers that were not measured are left out.

    Args:
        source: The path of a run directory or trace; or a result, an explanation, or a watched
            block or callback that has ended.
        run: The run, as `wandb.init()` returns it; default: the active one.

    Raises:
        InputError: The path cannot be explained, or the block has no result.
        OutputError: No run is active and none is passed.
    """
    run = wandb.run if run is None else run
    if run is None:
        raise OutputError(
            "No run of Weights & Biases is active",
            "Start one with wandb.init(), or pass 'run'",
        )
    write(report_of(source), run)


def write(report: Report, run: Any, at: Mapping[str, int] | None = None) -> None:
    """Log a report to a run.

    Args:
        report: What to log.
        run: The run.
        at: Metrics that place it on the axis of the training, such as its global step.
    """
    # As a file, because a text might be read as the path of one.
    page = wandb.Html(io.StringIO(report.page), inject=False)
    run.log({**metrics(report.result), **(at or {}), "stepwhy/report": page})
    run.summary.update(texts(report.result))
    artifact = wandb.Artifact(f"stepwhy-{run.id}", type=_TYPE)
    with artifact.new_file("result.json", mode="w", encoding="utf-8") as file:
        file.write(report.json)
    run.log_artifact(artifact)
