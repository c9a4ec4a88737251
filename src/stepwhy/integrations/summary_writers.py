"""Log a result through a `SummaryWriter` of PyTorch or tensorboardX, for TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.integrations.contents import metrics

if TYPE_CHECKING:
    from stepwhy.integrations.contents import Report


def write(report: Report, writer: Any, step: int) -> None:
    """Write the numbers as scalars, and the report as text.

    Args:
        report: What to log.
        writer: A `SummaryWriter`.
        step: The number of steps trained.
    """
    for name, value in metrics(report.result).items():
        writer.add_scalar(name, value, step)
    writer.add_text("stepwhy/findings", report.markdown, step)
    writer.flush()
